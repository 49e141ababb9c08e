//! Finds requests in bytes: pure, resumable, without recursion, and without an allocation for which the client has not
//! sent the bytes.

use weir_command::number::parse_i64;

use super::frame::{
    Limits, PartialRequest, Progress, ProtocolError, REDIS_BULK_BYTES_MAX, STRANGER_ARGS_MAX, STRANGER_BULK_BYTES_MAX,
    Span,
};
use super::inline;
use crate::tls::HANDSHAKE_RECORD;

/// Looks for one request at the front of `buffer`. After [`Progress::Incomplete`] the buffer must still hold what it
/// held at that call, and may hold more behind it. After a complete request the caller drops its bytes, and the next
/// call starts afresh.
///
/// # Errors
/// The bytes are no request, or one beyond the limits. The stream cannot be resumed: answer with
/// [`ProtocolError::reply`] and close.
pub fn parse(buffer: &[u8], limits: &Limits, state: &mut PartialRequest) -> Result<Progress, ProtocolError> {
    if state.complete {
        state.restart();
    }
    match buffer.first() {
        None => Ok(Progress::Incomplete),
        Some(b'*') => parse_array(buffer, limits, state),
        // No line of words begins like that.
        Some(&HANDSHAKE_RECORD) if matches!(buffer, [_, 3, ..=4, ..]) => Err(ProtocolError::Tls),
        Some(_) => parse_inline(buffer, limits, state),
    }
}

fn parse_array(buffer: &[u8], limits: &Limits, state: &mut PartialRequest) -> Result<Progress, ProtocolError> {
    let mut missing = match state.missing {
        Some(missing) => missing,
        None => {
            let announced = match take_short_number(buffer, state, b'*') {
                Some(announced) => i64::from(announced),
                None => {
                    let Some(line) = take_line(buffer, limits, state, ProtocolError::ArrayLineTooLong)? else {
                        return Ok(Progress::Incomplete);
                    };
                    parse_i64(&line[1..]).ok_or(ProtocolError::ArrayLength)?
                }
            };
            let Ok(announced @ 1..) = usize::try_from(announced) else {
                state.complete = true;
                return Ok(Progress::Nothing(state.position));
            };
            if announced > limits.args_max {
                return Err(ProtocolError::ArrayLength);
            }
            if limits.stranger && announced > STRANGER_ARGS_MAX {
                return Err(ProtocolError::StrangerArrayLength);
            }
            announced
        }
    };
    while missing > 0 {
        let len = match state.bulk_len {
            Some(len) => len,
            None => {
                let len = match take_short_number(buffer, state, b'$') {
                    Some(len) => Some(usize::from(len)),
                    None => {
                        let line = take_line(buffer, limits, state, ProtocolError::BulkLineTooLong)?;
                        let Some(line) = line else { break };
                        match line.first() {
                            Some(b'$') => {}
                            // An empty line: its own line end stands where the `$` should be.
                            None => return Err(ProtocolError::ExpectedBulk(b'\r')),
                            Some(&other) => return Err(ProtocolError::ExpectedBulk(other)),
                        }
                        parse_i64(&line[1..]).and_then(|len| usize::try_from(len).ok())
                    }
                };
                // This comes first, as in Redis, so that a client that has not logged in is not told what the longest
                // value is.
                let is_too_long = |len: usize| len > STRANGER_BULK_BYTES_MAX && len <= REDIS_BULK_BYTES_MAX;
                if limits.stranger && len.is_some_and(is_too_long) {
                    return Err(ProtocolError::StrangerBulkLength);
                }
                let len = len.filter(|&len| len <= limits.bulk_bytes_max).ok_or(ProtocolError::BulkLength)?;
                if state.position + len > limits.request_bytes_max {
                    return Err(ProtocolError::RequestTooLong);
                }
                len
            }
        };
        if buffer.len() < state.position + len + 2 {
            state.bulk_len = Some(len);
            break;
        }
        // The numbers fit 32 bits, because they are below `request_bytes_max`.
        state.spans.push(Span { start: state.position as u32, len: len as u32 });
        state.bulk_len = None;
        state.position += len + 2;
        missing -= 1;
    }
    state.missing = Some(missing);
    if missing > 0 {
        return Ok(Progress::Incomplete);
    }
    state.complete = true;
    Ok(Progress::Request(state.position))
}

/// Takes a whole line that consists of `kind` and a number of one or two digits, as most lines do, and moves past it.
/// `None` if another line is there, or none that is complete.
#[inline]
fn take_short_number(buffer: &[u8], state: &mut PartialRequest, kind: u8) -> Option<u8> {
    let line = buffer[state.position..].strip_prefix(&[kind])?;
    let (number, len) = match *line {
        [ones @ b'0'..=b'9', b'\r', _, ..] => (ones - b'0', 4),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] => (10 * (tens - b'0') + (ones - b'0'), 5),
        _ => return None,
    };
    state.position += len;
    state.scanned = 0;
    Some(number)
}

/// Returns the line that starts at the position, without its end (`\r` and one more byte, which Redis does not look at
/// either), and moves past it. `None` if the line is not complete.
fn take_line<'a>(
    buffer: &'a [u8],
    limits: &Limits,
    state: &mut PartialRequest,
    too_long: ProtocolError,
) -> Result<Option<&'a [u8]>, ProtocolError> {
    let window = &buffer[state.position..];
    let window = &window[..window.len().min(limits.line_bytes_max)];
    let Some(offset) = window[state.scanned..].iter().position(|&byte| byte == b'\r') else {
        state.scanned = window.len();
        return if window.len() == limits.line_bytes_max { Err(too_long) } else { Ok(None) };
    };
    let end = state.scanned + offset;
    if buffer.len() < state.position + end + 2 {
        state.scanned = end;
        return Ok(None);
    }
    state.scanned = 0;
    state.position += end + 2;
    Ok(Some(&window[..end]))
}

fn parse_inline(buffer: &[u8], limits: &Limits, state: &mut PartialRequest) -> Result<Progress, ProtocolError> {
    let window = &buffer[..buffer.len().min(limits.line_bytes_max)];
    let Some(offset) = window[state.scanned..].iter().position(|&byte| byte == b'\n') else {
        state.scanned = window.len();
        return if window.len() == limits.line_bytes_max {
            Err(ProtocolError::InlineTooLong)
        } else {
            Ok(Progress::Incomplete)
        };
    };
    let end = state.scanned + offset;
    let line = window[..end].strip_suffix(b"\r").unwrap_or(&window[..end]);
    inline::split(line, &mut state.words, &mut state.spans)?;
    if inline::looks_like_http(&state.words, &state.spans) {
        return Err(ProtocolError::Http);
    }
    state.inline = true;
    state.complete = true;
    Ok(if state.spans.is_empty() { Progress::Nothing(end + 1) } else { Progress::Request(end + 1) })
}
