//! A store in memory in which anything may fail, or wait, at any call.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use weir_command::error::Outcome;
use weir_command::events::Witness;
use weir_command::{Args, Call, Command, Host, Page, Read, Rows, Transaction, Waiting};
use weir_gateway::store::Store;
use weir_io::{Error, ErrorKind, Result, Rng, yield_now};
use weir_model::Batch;
use weir_node::{Quota, RowWatch};

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
    /// How many of a thousand calls fail.
    pub failing: AtomicU64,
    /// While this is set, no commit completes.
    pub commits_wait: AtomicBool,
    /// The limit of the tenant on disk if it has reached it; 0 = it has not.
    pub disk_limit: AtomicU64,
}

/// A store in memory in which anything may fail or wait.
#[derive(Clone)]
pub struct Troubled {
    inner: MemoryStore,
    pub trouble: Arc<Trouble>,
}

/// A commit that takes some polls, and may fail.
pub struct SomeTime {
    polls: u64,
    outcome: Option<Result<()>>,
    trouble: Arc<Trouble>,
}

impl Future for SomeTime {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.polls == 0 && !self.trouble.commits_wait.load(Ordering::SeqCst) {
            return Poll::Ready(self.outcome.take().expect("polled once"));
        }
        self.polls = self.polls.saturating_sub(1);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Troubled {
    pub fn new(clock: &Arc<TestClock>, seed: u64) -> Self {
        let trouble = Trouble {
            dice: Mutex::new(Rng::new(seed)),
            failing: 0.into(),
            commits_wait: false.into(),
            disk_limit: 0.into(),
        };
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
        SomeTime { polls, outcome: Some(outcome), trouble: Arc::clone(&self.trouble) }
    }
}

impl Rows for Troubled {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a> {
        Read::Pending(Box::pin(async move {
            self.meddle().await?;
            self.inner.get(database, key, now_ms).wait().await
        }))
    }

    fn page<'a>(&'a self, database: u8, from: &'a [u8], limit: usize) -> Waiting<'a, Result<Page>> {
        Box::pin(async move {
            self.meddle().await?;
            self.inner.page(database, from, limit).await
        })
    }
}

impl Store for Troubled {
    type Commit = SomeTime;

    fn rows(&self) -> &dyn Rows {
        self
    }

    async fn write(&self, batch: &Batch) -> Result<Self::Commit> {
        self.meddle().await?;
        drop(self.inner.write(batch).await?);
        Ok(self.commit())
    }

    fn takes_groups(&self) -> bool {
        true
    }

    fn write_together(&self, batch: &Batch, writers: usize, commits: &mut Vec<SomeTime>) -> bool {
        let (polls, outcome) = self.draw();
        if polls > 0 || outcome.is_err() || !self.inner.write_together(batch, writers, &mut Vec::new()) {
            return false;
        }
        commits.extend((0..writers).map(|_| self.commit()));
        true
    }

    async fn execute(
        &self,
        command: &'static Command,
        args: Args<'_>,
        host: &mut dyn Host,
        call: &mut Call,
    ) -> Result<(Outcome, Option<Self::Commit>)> {
        self.meddle().await?;
        let (outcome, commit) = self.inner.execute_on(self, command, args, host, call).await?;
        Ok((outcome, commit.map(|_| self.commit())))
    }

    async fn transact(&self, _: &[u8], transaction: &mut dyn Transaction) -> Result<Option<Self::Commit>> {
        self.meddle().await?;
        Ok(self.inner.transact_on(self, transaction).await?.map(|_| self.commit()))
    }

    async fn watch(&self, database: u8, key: &[u8]) -> Result<RowWatch> {
        self.meddle().await?;
        self.inner.watch(database, key).await
    }

    fn be_witnessed(&self, witness: Weak<dyn Witness>) {
        self.inner.be_witnessed(witness);
    }

    fn disk_limit_reached(&self) -> Option<u64> {
        Some(self.trouble.disk_limit.load(Ordering::Relaxed)).filter(|&max| max > 0)
    }

    async fn clear(&self, _held: impl Send + 'static) -> Result<bool> {
        self.meddle().await?;
        Ok(false)
    }

    fn quota(&self) -> Option<&Arc<Quota>> {
        self.inner.quota()
    }

    fn facts(&self) -> Vec<(&'static str, &'static str, String)> {
        Vec::new()
    }
}
