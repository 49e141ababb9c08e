//! Hashes secrets that somebody chose. Each takes 10 to 30 ms, so they are never hashed on a thread that serves clients
//! or operators.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;
use weir_io::Spawn;
use zeroize::Zeroizing;

use super::secret::{self, Malformed};

/// How many hashes may wait at the same time.
const WAITING_MAX: usize = 64;

/// The queue of slow hashes.
pub struct SlowHash {
    spawn: Arc<dyn Spawn>,
    waiting: AtomicUsize,
}

/// As many hashes wait as may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl SlowHash {
    /// A queue that hashes on `spawn`: give it a niced thread of its own.
    pub fn new(spawn: Arc<dyn Spawn>) -> Arc<Self> {
        Arc::new(Self { spawn, waiting: AtomicUsize::new(0) })
    }

    /// What is stored of `secret` with the salt `salt` ([`secret::choose`]).
    ///
    /// # Errors
    /// Too many hashes wait. The inner error: there is no memory.
    pub async fn choose(&self, secret: &str, salt: [u8; 16]) -> Result<Result<Vec<u8>, Malformed>, Busy> {
        let chosen = Zeroizing::new(secret.as_bytes().to_vec());
        self.run(move || secret::choose(&chosen, &mut |buffer| buffer.copy_from_slice(&salt))).await
    }

    /// The result of `hash`, which runs after everything that was queued before it.
    pub(crate) async fn run<T: Send + 'static>(&self, hash: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        let _place = WaitingHash::among(&self.waiting)?;
        let (answer, answered) = oneshot::channel();
        self.spawn.spawn(Box::pin(async move {
            if !answer.is_closed() {
                // The caller may have gone meanwhile.
                let _ = answer.send(hash());
            }
        }));
        answered.await.map_err(|_| Busy)
    }
}

/// A place in the queue.
struct WaitingHash<'a>(&'a AtomicUsize);

impl<'a> WaitingHash<'a> {
    fn among(waiting: &'a AtomicUsize) -> Result<Self, Busy> {
        let more = |now| (now < WAITING_MAX).then(|| now + 1);
        match waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self(waiting)),
            Err(_) => Err(Busy),
        }
    }
}

impl Drop for WaitingHash<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
