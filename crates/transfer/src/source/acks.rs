//! What a replica tells its master, once a second and when it is asked: up to where it has everything.

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
    /// The snapshot is here.
    is_streaming: AtomicBool,
    asked: Notify,
}

/// See the module. It ends when this is dropped.
pub struct Acks {
    state: Arc<StreamProgress>,
    task: JoinHandle<()>,
}

impl Acks {
    /// Until [`Acks::stream`] is called it only shows that it lives.
    pub(super) fn new(mut half: OwnedWriteHalf, clock: Arc<dyn Clock>) -> Self {
        let state = Arc::<StreamProgress>::default();
        let told = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let second = sleep_until(&clock, clock.now() + SECOND);
                select(pin!(told.asked.notified()), pin!(second)).await;
                let mut requests = Requests::default();
                let bytes = match told.is_streaming.load(Ordering::Acquire) {
                    // As a replica does that is busy with its snapshot.
                    false => b"\n".as_slice(),
                    true => {
                        let offset = told.offset.load(Ordering::Acquire).to_string();
                        requests.push(&["REPLCONF", "ACK", &offset]);
                        requests.bytes_from(0)
                    }
                };
                // Whoever reads from this socket learns what is wrong with it.
                if half.write_all(bytes).await.is_err() {
                    return;
                }
            }
        });
        Self { state, task }
    }

    /// The snapshot is here: from now on the position is told, beginning at once.
    pub fn stream(&self, offset: u64) {
        self.state.offset.store(offset, Ordering::Release);
        self.state.is_streaming.store(true, Ordering::Release);
        self.state.asked.notify_one();
    }

    /// Everything up to `offset` is here.
    pub fn applied(&self, offset: u64) {
        self.state.offset.store(offset, Ordering::Release);
    }

    /// The source asks for the position.
    pub fn answer(&self) {
        self.state.asked.notify_one();
    }
}

impl Drop for Acks {
    fn drop(&mut self) {
        self.task.abort();
    }
}
