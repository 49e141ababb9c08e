//! Values in the format of Redis' dump files (version 10), for `DUMP` and `RESTORE`: a type byte, the value, and a
//! footer of the version (16 bits) and a CRC-64 of all before it, both little-endian.
//!
//! A string is written as a whole number if it is a short one, and as it is otherwise; compressed strings (LZF) can be
//! read, too. [`loaded`] has the types, and [`packs`] the pieces of memory that Redis writes as they are.

pub mod file;
pub mod functions;
pub mod kind;
mod loaded;
pub mod packs;
mod reader;
mod skip;
pub mod streams;

use weir_io::Yield;

pub(crate) use self::loaded::push_field;
pub use self::loaded::{FIELD_DEADLINE_MS_MAX, Field, Loaded, load, mortal_field, take_deadline, take_score, text_f64};
pub use self::reader::{ELEMENTS_MAX, Turns};
pub use self::skip::{skip_module, skip_value};
use crate::number::parse_i64;
use crate::room::Room;

/// The version that Weir writes, except for values that have no form in it.
pub const VERSION: u16 = 10;
/// Since this version, fields of hashes may have deadlines. Weir reads all versions up to it.
pub(crate) const VERSION_OF_DEADLINES: u16 = 12;

/// First byte of a value that is not simply a number of bytes: the lower six bits say what it is.
const ENCODED: u8 = 0xc0;
const INT8: u8 = 0;
const INT16: u8 = 1;
const INT32: u8 = 2;
const LZF: u8 = 3;

/// Redis writes no longer texts than this as numbers.
const NUMBER_BYTES_MAX: usize = 11;
/// LZF makes at most 264 bytes of 3. A text that announces more is forged, and gets no memory for it.
const LZF_GROWTH_MAX: usize = 88;

/// How many bytes are summed between two turns: well below a millisecond.
const TURN_BYTES: usize = 256 << 10;

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The payload is of another format, or damaged.
    VersionOrChecksum,
    /// The footer is right, but the bytes in front of it are no value.
    Format,
    /// The value would be longer than it may be.
    TooLong,
    /// The value has more than [`ELEMENTS_MAX`] elements.
    TooMany,
    /// There is no room for the value in memory.
    NoRoom,
}

/// CRC-64 of Jones, with reflected bits; eight tables take eight bytes at a time.
static TABLES: [[u64; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x95ac_9329_ac4b_c9b5 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        byte = 0;
        while byte < 256 {
            let crc = tables[table - 1][byte];
            tables[table][byte] = tables[0][(crc & 0xff) as usize] ^ crc >> 8;
            byte += 1;
        }
        table += 1;
    }
    tables
};

/// The checksum of dump files; `crc` is the checksum of the bytes in front of `bytes`, which is 0 for none.
pub fn crc64(mut crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        crc = mixed.iter().zip(TABLES.iter().rev()).fold(0, |crc, (&byte, table)| crc ^ table[usize::from(byte)]);
    }
    rest.iter().fold(crc, |crc, &byte| TABLES[0][usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

async fn crc64_in_turns(mut crc: u64, bytes: &[u8], yields: Yield) -> u64 {
    for (index, piece) in bytes.chunks(TURN_BYTES).enumerate() {
        if index > 0 {
            yields.now().await;
        }
        crc = crc64(crc, piece);
    }
    crc
}

/// Appends a length.
pub fn push_len(out: &mut Vec<u8>, len: usize) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        // A value is below 2^32 bytes.
        _ => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

/// Appends a number of up to 64 bits, in the form of a length.
pub(crate) fn push_long_len(out: &mut Vec<u8>, len: u64) {
    match u32::try_from(len) {
        Ok(len) => push_len(out, len as usize),
        Err(_) => {
            out.push(0x81);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// Appends a string, as a whole number if it is a short one.
pub fn push_string(out: &mut Vec<u8>, value: &[u8]) {
    let number = if value.len() <= NUMBER_BYTES_MAX { parse_i64(value) } else { None };
    match number.map(i32::try_from) {
        Some(Ok(number)) => match (i8::try_from(number), i16::try_from(number)) {
            (Ok(number), _) => out.extend_from_slice(&[ENCODED | INT8, number as u8]),
            (_, Ok(number)) => {
                out.push(ENCODED | INT16);
                out.extend_from_slice(&number.to_le_bytes());
            }
            _ => {
                out.push(ENCODED | INT32);
                out.extend_from_slice(&number.to_le_bytes());
            }
        },
        _ => {
            push_len(out, value.len());
            out.extend_from_slice(value);
        }
    }
}

/// The payload in `version` for `body`, which is a type and what a value of that type says.
pub async fn seal(mut body: Vec<u8>, version: u16, yields: Yield) -> Vec<u8> {
    // The body of a long value is full, and would be given twice its memory for these ten bytes.
    body.reserve_exact(size_of::<u16>() + size_of::<u64>());
    body.extend_from_slice(&version.to_le_bytes());
    let crc = crc64_in_turns(0, &body, yields).await;
    body.extend_from_slice(&crc.to_le_bytes());
    body
}

/// The value in `payload`, whose strings have at most `bytes_max` bytes together.
pub async fn decode(payload: &[u8], bytes_max: usize, yields: Yield) -> Result<Loaded, Refusal> {
    loaded::load(checked(payload, yields).await?, bytes_max, yields).await
}

/// The same, as far as it fits into `room`, which is given back with what the value takes of it.
pub(crate) async fn decode_within(
    payload: &[u8],
    bytes_max: usize,
    yields: Yield,
    room: Room,
) -> Result<(Loaded, Room), Refusal> {
    loaded::load_in(checked(payload, yields).await?, bytes_max, Turns::within(yields, room)).await
}

/// The bytes in front of the footer, if the footer is right.
async fn checked(payload: &[u8], yields: Yield) -> Result<&[u8], Refusal> {
    let (summed, crc) = payload.split_last_chunk::<8>().ok_or(Refusal::VersionOrChecksum)?;
    let (body, version) = summed.split_last_chunk::<2>().ok_or(Refusal::VersionOrChecksum)?;
    if u16::from_le_bytes(*version) > VERSION_OF_DEADLINES
        || crc64_in_turns(0, summed, yields).await != u64::from_le_bytes(*crc)
    {
        return Err(Refusal::VersionOrChecksum);
    }
    Ok(body)
}

/// Takes a string of at most `bytes_max` bytes from the front of `rest`.
///
/// # Errors
/// There is no string, or it is longer.
pub async fn take_text(rest: &mut &[u8], bytes_max: usize, yields: Yield) -> Result<Vec<u8>, Refusal> {
    match take_string(rest)? {
        Text::Plain(value) if value.len() <= bytes_max => Ok(value.to_vec()),
        Text::Number(number) => Ok(number.to_string().into_bytes()),
        Text::Compressed(bytes, len) if len <= bytes_max => decompress(bytes, len, yields).await.ok_or(Refusal::Format),
        Text::Plain(_) | Text::Compressed(..) => Err(Refusal::TooLong),
    }
}

/// Why nothing can be taken from the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The bytes end too early, and more may follow.
    More,
    /// Whatever follows, the bytes are not what was looked for.
    Malformed,
}

impl From<Lack> for Refusal {
    fn from(_: Lack) -> Self {
        Refusal::Format
    }
}

/// Takes `len` bytes from the front of `rest`.
///
/// # Errors
/// There are fewer bytes.
pub fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], Lack> {
    let (taken, after) = rest.split_at_checked(len).ok_or(Lack::More)?;
    *rest = after;
    Ok(taken)
}

/// Takes `N` bytes from the front of `rest`.
///
/// # Errors
/// There are fewer bytes.
pub fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Lack> {
    let (taken, after) = rest.split_first_chunk().ok_or(Lack::More)?;
    *rest = after;
    Ok(*taken)
}

/// A length, or the kind of an encoded value.
enum Length {
    Bytes(usize),
    Encoded(u8),
}

fn take_length(rest: &mut &[u8]) -> Result<Length, Lack> {
    let [first] = take_array(rest)?;
    let bytes = match (first >> 6, first) {
        (0, _) => u64::from(first),
        (1, _) => u64::from(first & 0x3f) << 8 | u64::from(take(rest, 1)?[0]),
        (2, 0x80) => u64::from(u32::from_be_bytes(take_array(rest)?)),
        (2, 0x81) => u64::from_be_bytes(take_array(rest)?),
        (2, _) => return Err(Lack::Malformed),
        _ => return Ok(Length::Encoded(first & 0x3f)),
    };
    usize::try_from(bytes).map(Length::Bytes).map_err(|_| Lack::Malformed)
}

/// Takes a length, or another number that is written like one.
///
/// # Errors
/// There is no length.
pub fn take_bytes_len(rest: &mut &[u8]) -> Result<usize, Lack> {
    match take_length(rest)? {
        Length::Bytes(len) => Ok(len),
        Length::Encoded(_) => Err(Lack::Malformed),
    }
}

/// Takes the length in front of a string, and gives how many bytes the string has.
///
/// # Errors
/// There is no string.
pub fn take_string_len(rest: &mut &[u8]) -> Result<usize, Lack> {
    let len = match take_length(rest)? {
        Length::Bytes(len) => len,
        Length::Encoded(INT8) => 1,
        Length::Encoded(INT16) => 2,
        Length::Encoded(INT32) => 4,
        Length::Encoded(LZF) => {
            let compressed = take_bytes_len(rest)?;
            take_bytes_len(rest)?;
            compressed
        }
        Length::Encoded(_) => return Err(Lack::Malformed),
    };
    Ok(len)
}

/// A string as it is written.
#[derive(Debug)]
pub enum Text<'a> {
    /// The bytes as they are.
    Plain(&'a [u8]),
    /// The decimal digits of a number.
    Number(i32),
    /// Compressed by LZF, and the length that the text announces.
    Compressed(&'a [u8], usize),
}

/// Takes a string from the front of `rest`.
///
/// # Errors
/// There is no string.
pub fn take_string<'a>(rest: &mut &'a [u8]) -> Result<Text<'a>, Lack> {
    let number = match take_length(rest)? {
        Length::Bytes(len) => return Ok(Text::Plain(take(rest, len)?)),
        Length::Encoded(INT8) => i32::from(i8::from_le_bytes(take_array(rest)?)),
        Length::Encoded(INT16) => i32::from(i16::from_le_bytes(take_array(rest)?)),
        Length::Encoded(INT32) => i32::from_le_bytes(take_array(rest)?),
        Length::Encoded(LZF) => {
            let (compressed, len) = (take_bytes_len(rest)?, take_bytes_len(rest)?);
            return Ok(Text::Compressed(take(rest, compressed)?, len));
        }
        Length::Encoded(_) => return Err(Lack::Malformed),
    };
    Ok(Text::Number(number))
}

/// LZF: a byte below 32 announces as many literals plus one; other bytes announce a copy of bytes that are there
/// already.
async fn decompress(mut rest: &[u8], len: usize, yields: Yield) -> Option<Vec<u8>> {
    if len > rest.len().saturating_mul(LZF_GROWTH_MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    let mut turn_ends = TURN_BYTES;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        if control < 32 {
            out.extend_from_slice(take(&mut rest, usize::from(control) + 1).ok()?);
        } else {
            let mut copied = usize::from(control >> 5);
            if copied == 7 {
                copied += usize::from(take(&mut rest, 1).ok()?[0]);
            }
            let back = (usize::from(control & 31) << 8 | usize::from(take(&mut rest, 1).ok()?[0])) + 1;
            let from = out.len().checked_sub(back)?;
            // The copy may read bytes that it has written itself. They repeat those from `from` on, of which there are
            // twice as many each time.
            let mut left = copied + 2;
            while left > 0 {
                let some = left.min(out.len() - from);
                out.extend_from_within(from..from + some);
                left -= some;
            }
        }
        if out.len() > len {
            return None;
        }
        if out.len() >= turn_ends {
            turn_ends = out.len() + TURN_BYTES;
            yields.now().await;
        }
    }
    (out.len() == len).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now<T>(future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                return value;
            }
        }
    }

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn a_copy_may_read_what_it_has_written() {
        // Three literals, and a copy of `copied` bytes that begins `back` bytes before their end.
        let text = |back: u8, copied: u8| [&b"\x02abc"[..], &[0xe0, copied - 9, back - 1]].concat();
        let unpacked = |packed: &[u8], len| now(decompress(packed, len, Yield::PLAIN));
        for (back, copied) in [(1, 9), (1, 100), (2, 9), (2, 64), (3, 9), (3, 255)] {
            let mut expected = b"abc".to_vec();
            (0..copied).for_each(|_| expected.push(expected[expected.len() - usize::from(back)]));
            let len = expected.len();
            assert_eq!(unpacked(&text(back, copied), len), Some(expected), "{back} {copied}");
            assert_eq!(unpacked(&text(back, copied), len - 1), None, "it announces fewer");
        }
        // A short copy has its length in the first byte.
        assert_eq!(unpacked(b"\x02abc\x20\x02", 6), Some(b"abcabc".to_vec()));
        assert_eq!(unpacked(b"\x02abc\x20\x03", 6), None, "nothing is so far back");
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(kind in 0..28_u8, body: Vec<u8>) {
            let mut summed = [&[kind][..], &body, &VERSION.to_le_bytes()].concat();
            let crc = crc64(0, &summed);
            summed.extend_from_slice(&crc.to_le_bytes());
            let _ = now(decode(&summed, 1 << 20, Yield::PLAIN));
            let _ = now(decode(&body, 1 << 20, Yield::PLAIN));
        }
    }

    /// Byte by byte as the descriptions of 7.4's dump files say.
    #[test]
    fn hashes_whose_fields_expire_are_read_in_both_forms() {
        let body = |kind: u8, rest: &[u8]| {
            let mut summed = [&[kind][..], rest, &VERSION_OF_DEADLINES.to_le_bytes()].concat();
            let crc = crc64(0, &summed);
            summed.extend_from_slice(&crc.to_le_bytes());
            summed
        };
        let field =
            |name: &[u8], value: &[u8], expire_at_ms| Field { name: name.into(), value: value.into(), expire_at_ms };
        let expected =
            Loaded::Hash(vec![field(b"a", b"v", None), field(b"b", b"w", Some(1000)), field(b"c", b"", Some(1063))]);
        let metadata = body(24, b"\xe8\x03\0\0\0\0\0\0\x03\0\x01a\x01v\x01\x01b\x01w\x40\x40\x01c\0");
        assert_eq!(now(decode(&metadata, 100, Yield::PLAIN)), Ok(expected.clone()));
        let mut pack = packs::Listpack::default();
        for (name, value, deadline) in [(b"a", &b"v"[..], 0), (b"b", b"w", 1000), (b"c", b"", 1063)] {
            pack.string(name);
            pack.string(value);
            pack.number(deadline);
        }
        let mut rest = 1000_u64.to_le_bytes().to_vec();
        push_string(&mut rest, &pack.end());
        assert_eq!(now(decode(&body(25, &rest), 200, Yield::PLAIN)), Ok(expected));
        let beyond = body(24, b"\xff\xff\xff\xff\xff\xff\0\0\x01\x01\x01a\x01v");
        assert_eq!(now(decode(&beyond, 100, Yield::PLAIN)), Err(Refusal::Format));
    }
}
