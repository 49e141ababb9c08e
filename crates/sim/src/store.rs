//! What a crash run needs from a store, and the world that the store lives in.

use std::future::Future;
use std::sync::Arc;

use weir_io::{BoxFuture, Clock, Fs, Result, Spawn};
use weir_model::Batch;

use crate::model::Visible;
use crate::span::Span;

/// Everything that a store is handed.
#[derive(Clone)]
pub struct World {
    /// The disk.
    pub fs: Arc<dyn Fs>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where background work runs.
    pub spawn: Arc<dyn Spawn>,
    /// A number that differs for each opening.
    pub salt: u64,
}

/// A batch on its way.
pub struct Sent {
    /// Done when acknowledged or refused.
    pub done: BoxFuture<Result<()>>,
    /// Whether the batch has its place in the order already; if not, nothing may be sent before `done`.
    pub placed: bool,
}

/// A store under test. Reads see every write that was sent before, acknowledged or not.
pub trait Store: Send + Sync + Sized + 'static {
    /// How to open it.
    type Options: Clone + Send + Sync + std::fmt::Debug;
    /// A moment that is kept readable.
    type Snapshot: Send + Sync;

    /// Opens what is on the disk, or creates it.
    fn open(world: World, options: Self::Options) -> impl Future<Output = Result<Arc<Self>>>;

    /// Sends a batch.
    fn write(&self, batch: &Batch) -> Sent;

    /// Reads one key.
    fn get(&self, key: &[u8]) -> BoxFuture<Result<Option<Vec<u8>>>>;

    /// Reads one key as of `snapshot`.
    fn get_at(&self, key: &[u8], snapshot: &Self::Snapshot) -> BoxFuture<Result<Option<Vec<u8>>>>;

    /// Reads a span of keys, now or as of `snapshot`.
    fn scan(&self, span: &Span, snapshot: Option<&Self::Snapshot>) -> BoxFuture<Result<Visible>>;

    /// Keeps the present state readable; `None` if the store has no snapshots.
    fn snapshot(&self) -> Option<Self::Snapshot>;

    /// Asks for a flush.
    fn seal(&self);

    /// Ends in good order: what was acknowledged is durable, background work has stopped.
    fn close(self: Arc<Self>) -> BoxFuture<Result<()>>;
}
