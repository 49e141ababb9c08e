//! The closed loop: a client sends its next operation when the last one is answered, so that a slow store is asked
//! less.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::{Nanos, Result, Rng, sleep_until};

use crate::choice::Choice;
use crate::load::{Clients, Operation, entries};
use crate::mix::{Kind, Mix};

/// What the clients of a partition share: how they choose items.
#[derive(Clone)]
pub struct Choices {
    /// The choice of reads and updates, and of where scans begin.
    pub reads: Arc<Choice>,
    /// The choice of inserts.
    pub inserts: Arc<Choice>,
    /// Operations that the clients of the partition have sent.
    pub sent: Arc<AtomicU64>,
}

impl Choices {
    /// The next operation of `mix`: its kind, the item, and how many entries of a scan there are at most.
    pub fn next(&self, mix: &Mix, rng: &mut Rng) -> (Kind, u64, u64) {
        let kind = mix.kind(self.sent.fetch_add(1, Ordering::Relaxed));
        let entries = entries(kind, mix.entries_max, rng);
        let choice = if kind == Kind::Insert { &self.inserts } else { &self.reads };
        (kind, choice.draw(rng), entries)
    }

    /// Notes that an operation of `kind` on `item` is done.
    pub fn is_done(&self, kind: Kind, item: u64) {
        if kind == Kind::Insert {
            self.inserts.is_stored(item);
        }
    }
}

/// The time between an answer and the client's next operation: between half of `own_time` and one and a half times it.
pub fn rest(own_time: Nanos, rng: &mut Rng) -> Nanos {
    (own_time as f64 * (0.5 + rng.unit())) as Nanos
}

impl Clients {
    /// One client: sends what `mix` draws until `until`, resting for about `own_time` before each operation.
    ///
    /// # Errors
    /// The error of the first write that fails; no more operations are sent.
    pub async fn loop_of_one(
        self,
        mix: Mix,
        own_time: Nanos,
        until: Nanos,
        choices: Choices,
        mut rng: Rng,
    ) -> Result<()> {
        loop {
            let at = self.clock.now() + rest(own_time, &mut rng);
            if at >= until {
                return Ok(());
            }
            sleep_until(&self.clock, at).await;
            let (kind, item, entries) = choices.next(&mix, &mut rng);
            self.operate(Operation { kind, item, entries, at }, &mut rng).await?;
            choices.is_done(kind, item);
        }
    }
}
