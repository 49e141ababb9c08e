//! A map behind a log: the smallest store there is.
//!
//! It tests every power cut of the log alone, without a tree in the way, and it is simple enough to be trusted when the
//! harness itself is under test. Nothing is ever truncated: opening replays everything.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{BoxFuture, Clock, Op, Owner, Result, sleep_until};
use weir_log::{Log, LogOptions, SyncMode, WriteAheadLog};
use weir_model::{Batch, BatchRef};

use crate::model::{KeyValues, Visible};
use crate::node_store::SYNC_EVERY;
use crate::span::Span;
use crate::store::{Sent, Store, World};

/// The log's directory.
const DIR: &str = "log";
/// Small, so that a history of a few hundred batches crosses many segments.
const SEGMENT_BYTES: u64 = 32 << 10;

/// A map in memory and the log that it is replayed from.
pub struct LogStore {
    log: Log,
    clock: Arc<dyn Clock>,
    state: Mutex<KeyValues>,
}

impl Store for LogStore {
    type Options = SyncMode;
    type Snapshot = KeyValues;

    async fn open(world: World, sync: SyncMode) -> Result<Arc<Self>> {
        let mut state = KeyValues::default();
        let options =
            LogOptions { sync, segment_bytes: SEGMENT_BYTES, ..LogOptions::new(Owner::default(), world.salt) };
        let mut replay = |_index, payload: &[u8]| {
            let batch = BatchRef::decode(payload).map_err(|error| {
                weir_io::Error::corruption(DIR, error.offset as u64, "a record of the log is not a batch")
            });
            Op::ready(batch.map(|batch| state.apply_ref(batch)))
        };
        let (log, _) = Log::open(Arc::clone(&world.fs), Path::new(DIR), options, 0, &mut replay).await?;
        let store = Arc::new(Self { log, clock: Arc::clone(&world.clock), state: Mutex::new(state) });
        if sync == SyncMode::Interval {
            let (store, clock) = (Arc::downgrade(&store), world.clock);
            world.spawn.spawn(Box::pin(async move {
                loop {
                    sleep_until(&clock, clock.now() + SYNC_EVERY).await;
                    let Some(store) = store.upgrade() else { return };
                    // A failed sync fences the log, and every later write says so.
                    if store.log.sync().await.is_err() {
                        return;
                    }
                }
            }));
        }
        Ok(store)
    }

    fn write(&self, batch: &Batch) -> Sent {
        let appended = {
            let mut state = self.state.lock();
            let appended = self.log.append(batch.as_bytes());
            if appended.is_ok() {
                state.apply(batch);
            }
            appended
        };
        let log = self.log.clone();
        Sent { done: Box::pin(async move { log.commit(appended?).await }), placed: true }
    }

    fn get(&self, key: &[u8]) -> BoxFuture<Result<Option<Vec<u8>>>> {
        let found = self.state.lock().get(key, self.clock.unix_ms()).map(<[u8]>::to_vec);
        Box::pin(async move { Ok(found) })
    }

    fn get_at(&self, key: &[u8], snapshot: &KeyValues) -> BoxFuture<Result<Option<Vec<u8>>>> {
        let found = snapshot.get(key, self.clock.unix_ms()).map(<[u8]>::to_vec);
        Box::pin(async move { Ok(found) })
    }

    fn scan(&self, span: &Span, snapshot: Option<&KeyValues>) -> BoxFuture<Result<Visible>> {
        let now_ms = self.clock.unix_ms();
        let visible = snapshot.map_or_else(|| self.state.lock().span(span, now_ms), |state| state.span(span, now_ms));
        Box::pin(async move { Ok(visible) })
    }

    fn snapshot(&self) -> Option<KeyValues> {
        Some(self.state.lock().clone())
    }

    fn seal(&self) {}

    fn close(self: Arc<Self>) -> BoxFuture<Result<()>> {
        self.log.close()
    }
}
