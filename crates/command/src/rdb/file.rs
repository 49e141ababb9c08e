//! The parts of a dump file around its values.
//!
//! ```text
//! file  := "REDIS" | version, four digits | entry… | 255 | CRC-64 of all before it, little-endian (since version 5)
//! entry := 254 database | 251 keys, keys that expire | 250 name, value | 245 library of functions
//!        | 244 hash slot, keys, keys that expire (since version 12, of a cluster)
//!        | (253 seconds, 32 bits | 252 milliseconds, 64 bits)? (248 idle seconds)? (249 frequency, 8 bits)? type key value
//! ```

use weir_io::Yield;

use super::{VERSION, crc64, crc64_in_turns, push_len, push_string};

/// First bytes of every file; four digits of a version follow.
pub const MAGIC: &[u8; 5] = b"REDIS";
/// Digits of the version behind [`MAGIC`].
pub const VERSION_DIGITS: usize = 4;
/// First version with a checksum at the end.
pub const CHECKSUM_SINCE: u16 = 5;

/// How many keys a hash slot has. A server that is part of a cluster writes it.
pub const SLOT: u8 = 244;
/// A library of functions, as its source.
pub const FUNCTION_2: u8 = 245;
/// A library of functions, as release candidates of Redis 7.0 wrote it.
pub const FUNCTION_PRE_RELEASE: u8 = 246;
/// Something that a module keeps beside keys.
pub const MODULE_AUX: u8 = 247;
/// How long the next key was idle.
pub const IDLE: u8 = 248;
/// How often the next key was used.
pub const FREQUENCY: u8 = 249;
/// A fact about the file: a name and a value.
pub const AUX: u8 = 250;
/// How many keys the database has.
pub const RESIZE: u8 = 251;
/// When the next key expires, in milliseconds since 1970.
pub const EXPIRE_MS: u8 = 252;
/// When the next key expires, in seconds since 1970.
pub const EXPIRE_SECONDS: u8 = 253;
/// The database of all that follows.
pub const SELECT: u8 = 254;
/// The end.
pub const END: u8 = 255;

/// A file that is being written: the bytes that wait to be handed on, and the checksum of everything in front of them.
#[derive(Debug, Default)]
pub struct Writer {
    /// The waiting bytes.
    pub waiting: Vec<u8>,
    crc: u64,
    bytes: u64,
}

impl Writer {
    /// A file with these facts about it.
    pub fn new(facts: &[(&str, &str)]) -> Self {
        let mut writer = Self::default();
        push_header(&mut writer.waiting, facts);
        writer
    }

    /// Takes the waiting bytes. To be called often, so that they stay few.
    pub fn take(&mut self) -> Vec<u8> {
        self.crc = crc64(self.crc, &self.waiting);
        self.bytes += self.waiting.len() as u64;
        std::mem::take(&mut self.waiting)
    }

    /// Adds `piece` behind the waiting bytes, for the caller to hand on without a copy. Gives the bytes that come
    /// before it.
    pub async fn pass(&mut self, piece: &[u8], yields: Yield) -> Vec<u8> {
        let before = self.take();
        self.crc = crc64_in_turns(self.crc, piece, yields).await;
        self.bytes += piece.len() as u64;
        before
    }

    /// Ends the file. Gives its last bytes.
    pub fn end(&mut self) -> Vec<u8> {
        self.waiting.push(END);
        let mut last = self.take();
        last.extend_from_slice(&self.crc.to_le_bytes());
        self.bytes += self.crc.to_le_bytes().len() as u64;
        last
    }

    /// How many bytes were handed on so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Appends the beginning of a file, with facts about it.
fn push_header(out: &mut Vec<u8>, facts: &[(&str, &str)]) {
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(format!("{VERSION:04}").as_bytes());
    for (name, value) in facts {
        out.push(AUX);
        push_string(out, name.as_bytes());
        push_string(out, value.as_bytes());
    }
}

/// Appends that the following keys are in `database`.
pub fn push_select(out: &mut Vec<u8>, database: u8) {
    out.push(SELECT);
    push_len(out, usize::from(database));
}

/// Appends a key whose value is of type `kind`, and when it expires; its value follows.
pub fn push_key(out: &mut Vec<u8>, kind: u8, key: &[u8], expire_at_ms: Option<u64>) {
    if let Some(at_ms) = expire_at_ms {
        out.push(EXPIRE_MS);
        out.extend_from_slice(&at_ms.to_le_bytes());
    }
    out.push(kind);
    push_string(out, key);
}

/// Appends a library of functions with this code.
pub fn push_library(out: &mut Vec<u8>, code: &[u8]) {
    out.push(FUNCTION_2);
    push_string(out, code);
}
