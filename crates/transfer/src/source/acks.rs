//! Tells the master up to where the replica has everything, once a second and when the master asks.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::select;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use weir_io::{Clock, sleep_until};

use crate::resp::Requests;
use crate::within::SECOND;

#[derive(Default)]
struct StreamProgress {
    offset: AtomicU64,
    /// The snapshot has been received.
    is_streaming: AtomicBool,
    asked: Notify,
}

/// The acknowledgements of a replica. They end when this is dropped.
pub struct Acks {
    state: Arc<StreamProgress>,
    task: JoinHandle<()>,
}

impl Acks {
    /// Starts the acknowledgements. Until [`Acks::stream`] is called they only show that the replica lives.
    pub(super) fn new(mut half: OwnedWriteHalf, clock: Arc<dyn Clock>) -> Self {
        let state = Arc::<StreamProgress>::default();
        let told = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let second = sleep_until(&clock, clock.now() + SECOND);
                select(pin!(told.asked.notified()), pin!(second)).await;
                let mut requests = Requests::default();
                let bytes = match told.is_streaming.load(Ordering::Acquire) {
                    // A replica that is busy with its snapshot does the same.
                    false => b"\n".as_slice(),
                    true => {
                        let offset = told.offset.load(Ordering::Acquire).to_string();
                        requests.push(&["REPLCONF", "ACK", &offset]);
                        requests.bytes_from(0)
                    }
                };
                // The task that reads from this socket learns what is wrong with it.
                if half.write_all(bytes).await.is_err() {
                    return;
                }
            }
        });
        Self { state, task }
    }

    /// Notes that the snapshot has been received: from now on the position is told, beginning at once.
    pub fn stream(&self, offset: u64) {
        self.state.offset.store(offset, Ordering::Release);
        self.state.is_streaming.store(true, Ordering::Release);
        self.state.asked.notify_one();
    }

    /// Notes that everything up to `offset` has been applied.
    pub fn applied(&self, offset: u64) {
        self.state.offset.store(offset, Ordering::Release);
    }

    /// Tells the position at once, as the source asks for it.
    pub fn answer(&self) {
        self.state.asked.notify_one();
    }
}

impl Drop for Acks {
    fn drop(&mut self) {
        self.task.abort();
    }
}
