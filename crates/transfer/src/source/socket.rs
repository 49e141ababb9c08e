//! The bytes that a source sends.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use weir_io::{Clock, Nanos, sleep_until};

use crate::failure::{Failure, Result};
use crate::rdb::Bytes;
use crate::within::SECOND;

/// A source that is silent for this long is gone: a living one sends a line every ten seconds.
const SILENT_SECONDS: u64 = 60;
/// Room for what is read at once.
const READ_BYTES: usize = 256 << 10;

/// The socket from a source.
pub struct SocketBytes {
    half: OwnedReadHalf,
    clock: Arc<dyn Clock>,
    /// When the last bytes came.
    heard: Nanos,
}

impl SocketBytes {
    /// The bytes that come from `half`.
    pub(super) fn new(half: OwnedReadHalf, clock: &Arc<dyn Clock>) -> Self {
        Self { half, clock: Arc::clone(clock), heard: clock.now() }
    }
}

impl Bytes for SocketBytes {
    /// Dropping the future before it is done loses nothing.
    async fn read(&mut self, out: &mut Vec<u8>) -> Result<usize> {
        out.reserve(READ_BYTES);
        let late = sleep_until(&self.clock, self.heard + SILENT_SECONDS * SECOND);
        let read = match select(pin!(self.half.read_buf(out)), pin!(late)).await {
            Either::Left((read, _)) => read?,
            Either::Right(_) => {
                return Err(Failure::broken(format!("the source has said nothing for {SILENT_SECONDS} s")));
            }
        };
        self.heard = self.clock.now();
        match read {
            0 => Err(Failure::broken("the source closed the connection")),
            read => Ok(read),
        }
    }
}
