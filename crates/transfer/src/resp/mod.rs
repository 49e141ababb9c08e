//! The wire protocol: requests, replies, and a connection that exchanges them.

mod connection;
mod reply;
mod request;
mod verdict;

pub use connection::Connection;
pub use reply::{Reply, ReplyEnd, take_reply};
pub use request::{Requests, request_len, take_request};
pub use verdict::{Verdict, is_full, judge, judge_read};

use crate::failure::{Failure, Result};

/// Longest bulk that is taken, as in Redis itself.
const BULK_BYTES_MAX: u64 = 512 << 20;
/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Takes a line without its end from the front of `rest`; `None` if it is not whole yet.
fn take_line<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>> {
    match rest.iter().take(LINE_BYTES_MAX).position(|&byte| byte == b'\n') {
        Some(end) => {
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            *rest = &rest[end + 1..];
            Ok(Some(line))
        }
        None if rest.len() >= LINE_BYTES_MAX => Err(malformed()),
        None => Ok(None),
    }
}

/// Takes a bulk of `len` bytes and the end of its line.
fn take_bulk<'a>(rest: &mut &'a [u8], len: u64) -> Result<Option<&'a [u8]>> {
    let len = usize::try_from(len).ok().filter(|_| len <= BULK_BYTES_MAX).ok_or_else(malformed)?;
    let Some((bulk, after)) = rest.split_at_checked(len) else { return Ok(None) };
    let Some((end, after)) = after.split_at_checked(2) else { return Ok(None) };
    if end != b"\r\n" {
        return Err(malformed());
    }
    *rest = after;
    Ok(Some(bulk))
}

fn number(line: &[u8]) -> Result<i64> {
    weir_command::number::parse_i64(line).ok_or_else(malformed)
}

fn malformed() -> Failure {
    Failure::broken("what came is no Redis protocol")
}
