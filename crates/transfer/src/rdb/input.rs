//! A stream of bytes, of which only the part that is being decoded is in memory.

use std::future::Future;
use std::io::Read;

use weir_command::rdb::{Lack, Refusal, crc64, take_string, take_string_len, take_text};
use weir_io::Yield;

use crate::failure::{Failure, Result};

/// Room for what is read at once.
const READ_BYTES: usize = 256 << 10;
/// Most bytes of the length in front of a string.
const LENGTH_BYTES_MAX: usize = 32;

/// Where bytes come from.
pub trait Bytes: Send {
    /// Appends the bytes that there are, and waits for at least one; at the end there are none. Gives their number.
    fn read(&mut self, out: &mut Vec<u8>) -> impl Future<Output = Result<usize>> + Send;
}

/// A file, or anything else that can be read without waiting.
pub struct FileBytes<R>(pub R);

impl<R: Read + Send> Bytes for FileBytes<R> {
    async fn read(&mut self, out: &mut Vec<u8>) -> Result<usize> {
        let before = out.len();
        out.resize(before + READ_BYTES, 0);
        let read = self.0.read(&mut out[before..]).map_err(|error| Failure::new(format!("reading: {error}")));
        out.truncate(before + *read.as_ref().unwrap_or(&0));
        // Others on this thread get their turn between two pieces.
        weir_io::yield_now().await;
        read
    }
}

/// A source of bytes, and the bytes that were received and not consumed yet.
pub struct Input<B> {
    source: B,
    held: Vec<u8>,
    start: usize,
    crc: u64,
    consumed: u64,
}

impl<B: Bytes> Input<B> {
    /// The bytes that come from `source`, behind those that were `received` already.
    pub fn new(source: B, received: Vec<u8>) -> Self {
        Self { source, held: received, start: 0, crc: 0, consumed: 0 }
    }

    /// The bytes that are there and not consumed.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held[self.start..]
    }

    /// Bytes consumed so far.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The checksum of all consumed bytes.
    pub(super) fn crc(&self) -> u64 {
        self.crc
    }

    /// The source, and the bytes that came and were not consumed.
    pub fn into_parts(mut self) -> (B, Vec<u8>) {
        self.held.drain(..self.start);
        (self.source, self.held)
    }

    /// A failure that says at which byte the damage is.
    pub(super) fn broken(&self, what: &str) -> Failure {
        Failure::new(format!("{what} at byte {}: the dump is damaged, or of a later version", self.consumed))
    }

    /// Waits for more bytes.
    pub(crate) async fn fill(&mut self) -> Result {
        if self.start > self.held.len() / 2 {
            self.held.drain(..std::mem::take(&mut self.start));
        }
        match self.source.read(&mut self.held).await? {
            0 => Err(Failure::broken(format!(
                "the dump ends at byte {}, in the middle",
                self.consumed + self.held().len() as u64
            ))),
            _ => Ok(()),
        }
    }

    /// Consumes the next `len` bytes, which are there.
    pub(crate) fn consume(&mut self, len: usize) {
        self.crc = crc64(self.crc, &self.held[self.start..self.start + len]);
        self.start += len;
        self.consumed += len as u64;
    }

    /// Consumes and gives what `take` decodes from the front.
    ///
    /// # Errors
    /// There is no such thing, or it is not whole.
    pub(crate) async fn piece<T>(&mut self, take: impl Fn(&mut &[u8]) -> std::result::Result<T, Lack>) -> Result<T> {
        loop {
            let mut rest = self.held();
            let before = rest.len();
            match take(&mut rest) {
                Ok(taken) => {
                    let len = before - rest.len();
                    self.consume(len);
                    return Ok(taken);
                }
                Err(Lack::More) => self.fill().await?,
                Err(Lack::Malformed) => return Err(self.broken("something that means nothing")),
            }
        }
    }

    /// The next string, unless it has more than `bytes_max` bytes: then it is skipped, and its length is given.
    ///
    /// # Errors
    /// There is no string.
    pub(super) async fn string(&mut self, bytes_max: usize) -> Result<std::result::Result<Vec<u8>, u64>> {
        loop {
            let mut rest = self.held();
            match take_string(&mut rest) {
                Ok(_) => {
                    let len = self.held().len() - rest.len();
                    let text = take_text(&mut self.held(), bytes_max, Yield::PLAIN).await;
                    self.consume(len);
                    return match text {
                        Ok(text) => Ok(Ok(text)),
                        Err(Refusal::TooLong) => Ok(Err(len as u64)),
                        Err(_) => Err(self.broken("a string that is none")),
                    };
                }
                Err(Lack::More) if self.held().len() > bytes_max + LENGTH_BYTES_MAX => {
                    let len = self.piece(take_string_len).await?;
                    self.discard(len).await?;
                    return Ok(Err(len as u64));
                }
                Err(Lack::More) => self.fill().await?,
                Err(Lack::Malformed) => return Err(self.broken("a string that is none")),
            }
        }
    }

    /// Consumes the next `len` bytes, whether they have come already or not.
    async fn discard(&mut self, mut len: usize) -> Result {
        while len > 0 {
            let some = self.held().len().min(len);
            self.consume(some);
            len -= some;
            if len > 0 {
                self.fill().await?;
            }
        }
        Ok(())
    }
}
