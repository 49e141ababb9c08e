//! A store in memory in which anything may fail, or wait, at any call.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use weir_gateway::store::{Entry, Page, Store, Transfer};
use weir_io::{Error, ErrorKind, Result, Rng, yield_now};
use weir_model::Batch;
use weir_node::Quota;

use super::{MemoryStore, TestClock};

const KINDS: [ErrorKind; 6] = [
    ErrorKind::NoSpace,
    ErrorKind::Corruption,
    ErrorKind::NotFound,
    ErrorKind::Closed,
    ErrorKind::Device,
    ErrorKind::Invalid,
];

/// How often things go wrong, shared by all handles.
pub struct Trouble {
    dice: Mutex<Rng>,
    /// Of a thousand calls.
    pub failing: AtomicU64,
    /// What the tenant may hold on disk; 0 = it does not hold it.
    pub disk_limit: AtomicU64,
}

/// See the module.
#[derive(Clone)]
pub struct Troubled {
    inner: MemoryStore,
    pub trouble: Arc<Trouble>,
}

/// A commit that takes some polls, and may fail.
pub struct SomeTime {
    polls: u64,
    outcome: Option<Result<()>>,
}

impl Future for SomeTime {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.polls == 0 {
            return Poll::Ready(self.outcome.take().expect("polled once"));
        }
        self.polls -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Troubled {
    pub fn new(clock: &Arc<TestClock>, seed: u64) -> Self {
        let trouble = Trouble { dice: Mutex::new(Rng::new(seed)), failing: 0.into(), disk_limit: 0.into() };
        Self { inner: MemoryStore::new(clock), trouble: Arc::new(trouble) }
    }

    fn draw(&self) -> (u64, Result<()>) {
        let mut dice = self.trouble.dice.lock().expect("no panic");
        let polls = if dice.chance(0.1) { dice.below(4) } else { 0 };
        if dice.below(1000) >= self.trouble.failing.load(Ordering::Relaxed) {
            return (polls, Ok(()));
        }
        let kind = KINDS[dice.below(KINDS.len() as u64) as usize];
        (polls, Err(Error::new(kind, "do", "what was asked", "planned")))
    }

    async fn meddle(&self) -> Result<()> {
        let (polls, outcome) = self.draw();
        for _ in 0..polls {
            yield_now().await;
        }
        outcome
    }

    fn commit(&self) -> SomeTime {
        let (polls, outcome) = self.draw();
        SomeTime { polls, outcome: Some(outcome) }
    }
}

impl Store for Troubled {
    type Value = Arc<[u8]>;
    type Commit = SomeTime;

    async fn get(&self, key: &[u8]) -> Result<Option<Entry<Self::Value>>> {
        self.meddle().await?;
        self.inner.get(key).await
    }

    async fn write(&self, batch: &Batch) -> Result<Self::Commit> {
        self.meddle().await?;
        drop(self.inner.write(batch).await?);
        Ok(self.commit())
    }

    async fn update<R: Send>(
        &self,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Entry<Self::Value>>], &mut Batch) -> R + Send,
    ) -> Result<(R, Option<Self::Commit>)> {
        self.meddle().await?;
        let (result, commit) = self.inner.update(keys, change).await?;
        Ok((result, commit.map(|_| self.commit())))
    }

    async fn transfer(&self, transfer: Transfer<'_>) -> Result<(Option<usize>, Option<Self::Commit>)> {
        self.meddle().await?;
        let (done, commit) = self.inner.transfer(transfer).await?;
        Ok((done, commit.map(|_| self.commit())))
    }

    async fn scan(&self, from: &[u8], limit: usize) -> Result<Page> {
        self.meddle().await?;
        self.inner.scan(from, limit).await
    }

    fn disk_limit_reached(&self) -> Option<u64> {
        Some(self.trouble.disk_limit.load(Ordering::Relaxed)).filter(|&max| max > 0)
    }

    async fn clear(&self) -> Result<bool> {
        self.meddle().await?;
        Ok(false)
    }

    fn database(&self, number: u8) -> Option<Self> {
        Some(Self { inner: self.inner.database(number)?, ..self.clone() })
    }

    fn quota(&self) -> Option<&Arc<Quota>> {
        self.inner.quota()
    }

    fn facts(&self) -> Vec<(&'static str, &'static str, String)> {
        Vec::new()
    }
}
