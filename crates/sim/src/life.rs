//! One life of a store: it opens what the last life left, compares it, and uses it until the life ends or the power
//! goes.

use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use weir_io::{Clock, Nanos, sleep_until};
use weir_model::{Batch, Change};

use crate::model::{Model, Visible, differences};
use crate::span::Span;
use crate::store::{Sent, Store, World};
use crate::workload::{Step, Workload};

/// What an acknowledgement is worth when the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The batch is durable.
    Durable,
    /// The batch is durable this many nanoseconds later.
    Within(Nanos),
    /// Nothing; but even then there is no hole in what is recovered.
    Nothing,
}

/// What was sent, and which batches were acknowledged when. Shared with the code that cuts the power.
#[derive(Clone, Default)]
pub struct Acks(Arc<Mutex<Noted>>);

#[derive(Clone, Default)]
struct Noted {
    settled: bool,
    sent: usize,
    acknowledged: Vec<(usize, Nanos)>,
}

impl Acks {
    fn send(&self) -> usize {
        let mut noted = self.0.lock();
        noted.sent += 1;
        noted.sent
    }

    fn acknowledge(&self, batches: usize, now: Nanos) {
        self.0.lock().acknowledged.push((batches, now));
    }

    /// Whether the store has shown what it recovered.
    pub fn settled(&self) -> bool {
        self.0.lock().settled
    }

    /// How many batches were sent so far.
    pub fn sent(&self) -> usize {
        self.0.lock().sent
    }

    /// How many batches must survive a cut at `now`. Batches are ordered, so an acknowledged batch speaks for all
    /// before it.
    pub fn promised(&self, promise: Promise, now: Nanos) -> usize {
        let noted = self.0.lock();
        let due = noted.acknowledged.iter().filter(|(_, at)| match promise {
            Promise::Durable => true,
            Promise::Within(bound) => at + bound <= now,
            Promise::Nothing => false,
        });
        due.map(|(batches, _)| *batches).max().unwrap_or(0)
    }

    /// A copy of what is known now, which does not follow later changes.
    #[must_use]
    pub fn at_this_moment(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// How many acknowledgements there were.
    pub fn count(&self) -> u64 {
        self.0.lock().acknowledged.len() as u64
    }
}

/// A store in use, and what is known about it.
pub struct Life<'a, S> {
    store: Arc<S>,
    world: World,
    model: &'a mut Model,
    acks: Acks,
    in_flight: Vec<Handle>,
}

/// The result of a write that runs on its own.
type Handle = Arc<Mutex<Answer>>;

#[derive(Default)]
struct Answer {
    result: Option<Result<(), String>>,
    waiting: Option<std::task::Waker>,
}

/// Writes that may be unanswered at a time.
const IN_FLIGHT_MAX: usize = 8;

impl<'a, S: Store> Life<'a, S> {
    /// Opens the store and finds out which prefix of the batches sent is there; `durable` is how many were promised
    /// before. Returns the life and the cut.
    pub async fn begin(
        world: World,
        options: S::Options,
        model: &'a mut Model,
        durable: usize,
        acks: Acks,
    ) -> Result<(Self, usize), String> {
        let store = S::open(world.clone(), options).await.map_err(|error| format!("cannot open: {error}"))?;
        let (before, found) = scan(&*store, &world, false).await?;
        let after = world.clock.unix_ms();
        // A key may expire while the scan runs: then both moments are right.
        let cut = match model.settle(&found, durable, before) {
            Err(_) if after != before => model.settle(&found, durable, after),
            settled => settled,
        };
        let cut = cut.map_err(|mismatch| format!("after opening: {mismatch}"))?;
        acks.0.lock().settled = true;
        let life = Self { store, world, model, acks, in_flight: Vec::new() };
        life.check_scan(true).await?;
        Ok((life, cut))
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// Takes `steps` steps of `workload`.
    pub async fn run(&mut self, workload: &mut Workload, steps: usize) -> Result<(), String> {
        for _ in 0..steps {
            let step = workload.step(self.world.clock.unix_ms());
            self.step(step, workload).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: Step, workload: &mut Workload) -> Result<(), String> {
        match step {
            Step::Write { batch, wait } => {
                let placed = self.send(batch);
                if wait || !placed || self.in_flight.len() >= IN_FLIGHT_MAX {
                    self.wait_for_writes().await?;
                }
            }
            Step::Get(key) => {
                self.wait_for_writes().await?;
                self.check_get(&key).await?;
            }
            Step::Scan { reverse } => {
                self.wait_for_writes().await?;
                self.check_scan(reverse).await?;
            }
            Step::Seal => self.store.seal(),
            Step::Sleep(ms) => sleep_ms(&self.world, ms).await,
            Step::Expire(key) => {
                let value = workload.value();
                self.expire(&key, &value).await?;
            }
        }
        Ok(())
    }

    /// Whether the batch has its place in the order.
    fn send(&mut self, batch: Batch) -> bool {
        // Noted before it is sent: the power may go inside the call.
        let number = self.acks.send();
        let Sent { done, placed } = self.store.write(&batch);
        self.model.send(batch);
        let (acks, clock) = (self.acks.clone(), Arc::clone(&self.world.clock));
        let handle = Handle::default();
        self.in_flight.push(Arc::clone(&handle));
        self.world.spawn.spawn(Box::pin(async move {
            let result = done.await;
            if result.is_ok() {
                acks.acknowledge(number, clock.now());
            }
            let mut answer = handle.lock();
            answer.result = Some(result.map_err(|error| format!("write {number} failed: {error}")));
            if let Some(waiting) = answer.waiting.take() {
                waiting.wake();
            }
        }));
        placed
    }

    /// Waits until every write is answered.
    pub async fn wait_for_writes(&mut self) -> Result<(), String> {
        for handle in self.in_flight.drain(..) {
            std::future::poll_fn(|cx| {
                let mut answer = handle.lock();
                if let Some(result) = answer.result.take() {
                    return Poll::Ready(result);
                }
                answer.waiting = Some(cx.waker().clone());
                Poll::Pending
            })
            .await?;
        }
        Ok(())
    }

    async fn check_get(&self, key: &[u8]) -> Result<(), String> {
        let before = self.world.clock.unix_ms();
        let found = self.store.get(key).await.map_err(|error| format!("cannot read: {error}"))?;
        let after = self.world.clock.unix_ms();
        let state = self.model.present();
        if [before, after].iter().any(|now| state.get(key, *now) == found.as_deref()) {
            return Ok(());
        }
        let pair = |value: Option<&[u8]>| value.map(|value| (key.to_vec(), value.to_vec())).into_iter().collect();
        let expected: Visible = pair(state.get(key, before));
        Err(format!("get: {}", differences(&expected, &pair(found.as_deref())).join("; ")))
    }

    async fn check_scan(&self, reverse: bool) -> Result<(), String> {
        let (before, found) = scan(&*self.store, &self.world, reverse).await?;
        let after = self.world.clock.unix_ms();
        let state = self.model.present();
        if [before, after].iter().any(|now| state.visible(*now) == found) {
            return Ok(());
        }
        let mut lines = differences(&state.visible(before), &found);
        lines.truncate(5);
        Err(format!("scan (reverse: {reverse}): {}", lines.join("; ")))
    }

    async fn expire(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let expire_at_ms = self.world.clock.unix_ms() + 30;
        let mut batch = Batch::new();
        batch.push(Change::Put { key, value, expire_at_ms: Some(expire_at_ms) });
        self.send(batch);
        self.wait_for_writes().await?;
        for moment in [expire_at_ms - 1, expire_at_ms] {
            let now = self.world.clock.unix_ms();
            if now < moment {
                sleep_ms(&self.world, moment - now).await;
            }
            self.check_get(key).await?;
        }
        Ok(())
    }

    /// Ends the life in good order.
    pub async fn close(mut self) -> Result<(), String> {
        self.wait_for_writes().await?;
        self.store.close().await.map_err(|error| format!("cannot close: {error}"))
    }
}

/// Everything in ascending order, and the wall clock when the scan began.
async fn scan<S: Store>(store: &S, world: &World, reverse: bool) -> Result<(u64, Visible), String> {
    let now_ms = world.clock.unix_ms();
    let mut found = store.scan(&Span::all(reverse), None).await.map_err(|error| format!("cannot scan: {error}"))?;
    if reverse {
        found.reverse();
    }
    if let Some(pair) = found.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("scan (reverse: {reverse}) is out of order at {:?}", String::from_utf8_lossy(&pair[1].0)));
    }
    Ok((now_ms, found))
}

/// Sleeps until the wall clock has moved by `ms`, to the millisecond's very start.
async fn sleep_ms(world: &World, ms: u64) {
    let clock: &Arc<dyn Clock> = &world.clock;
    sleep_until(clock, (clock.now() / 1_000_000 + ms) * 1_000_000).await;
}
