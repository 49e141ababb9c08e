//! Reads a dump file, one item after the other.

use weir_command::rdb::file::{
    AUX, CHECKSUM_SINCE, END, EXPIRE_MS, EXPIRE_SECONDS, FREQUENCY, FUNCTION_2, FUNCTION_PRE_RELEASE, IDLE, MAGIC,
    MODULE_AUX, RESIZE, SELECT, SLOT, VERSION_DIGITS,
};
use weir_command::rdb::{Lack, kind, skip_module, skip_value, take, take_array, take_bytes_len};

use super::cut::{Cut, Part};
use super::input::{Bytes, Input};
use crate::failure::{Failure, Result};

/// The newest version that is read: that of Redis 7.4.
const VERSION_MAX: u16 = 12;
/// Unless something else is wanted, a value of more bytes is given in parts. As a whole it would be one request, and at
/// worst be in several batches of each lane.
pub const WHOLE_BYTES_MAX: usize = 8 << 20;
/// Bytes of a whole value beside its content when it is sent: its type, a version and a checksum.
const SEAL_BYTES: usize = 11;
/// Numbers behind [`SLOT`].
const SLOT_NUMBERS: usize = 3;
/// The fact that names the database which is chosen in the stream behind a snapshot.
const STREAM_DATABASE: &[u8] = b"repl-stream-db";
/// Most bytes of a name or a fact: Redis does not write longer ones.
const NAME_BYTES_MAX: usize = 512 << 20;

/// Something in a dump file.
#[derive(Debug)]
pub enum Item {
    /// A key and its value.
    Key(Key),
    /// The source of a library of functions.
    Functions(Vec<u8>),
    /// Data that the module of this name keeps beside keys.
    ModuleAux(String),
    /// The end: the checksum was right.
    End,
}

/// A key.
#[derive(Debug)]
pub struct Key {
    /// The database that it is in.
    pub database: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// Its value.
    pub value: Value,
}

/// The value of a key.
#[derive(Debug)]
pub enum Value {
    /// A string.
    Text(Vec<u8>),
    /// A value of any other type: its type and its content, as `RESTORE` takes it with a footer.
    Whole(Vec<u8>),
    /// A value of this type that is too large for one request: [`Dump::part`] gives it piece by piece.
    Parts(u8),
    /// A string of this many bytes, more than the target takes.
    TooLong(u64),
    /// A value of the module of this name.
    Module(String),
}

/// A dump file that is being read as a stream.
pub struct Dump<B> {
    input: Input<B>,
    version: u16,
    database: u64,
    /// Longest string that is given.
    value_bytes_max: usize,
    /// Longest value that is given as a whole; longer ones are given in parts.
    whole_bytes_max: usize,
    /// The value that is now given in parts.
    cut: Option<Cut>,
    /// Keys that were announced.
    announced: u64,
    /// The database that is chosen in the stream behind the dump.
    stream_database: u64,
}

impl<B: Bytes> Dump<B> {
    /// The dump that `input` begins with. Strings of more than `value_bytes_max` bytes are not given, and other values
    /// of more than `whole_bytes_max`, or that would not be one string of `value_bytes_max`, are given in parts.
    ///
    /// # Errors
    /// There is no dump, or it is of a later version.
    pub async fn open(mut input: Input<B>, value_bytes_max: usize, whole_bytes_max: usize) -> Result<Self> {
        let magic: [u8; MAGIC.len() + VERSION_DIGITS] = input.piece(take_array).await?;
        let (name, digits) = magic.split_at(MAGIC.len());
        let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let version = version.filter(|_| name == MAGIC);
        let version =
            version.ok_or_else(|| Failure::new("this is no dump file of Redis: it does not begin with REDIS"))?;
        if !(1..=VERSION_MAX).contains(&version) {
            return Err(Failure::new(format!(
                "this dump is of version {version}, and versions up to {VERSION_MAX} (Redis 7.4) are read: a file or a \
                 server of Redis 2.4 to 7.4 is needed"
            )));
        }
        let whole_bytes_max = whole_bytes_max.min(value_bytes_max.saturating_sub(SEAL_BYTES));
        Ok(Self {
            input,
            version,
            database: 0,
            value_bytes_max,
            whole_bytes_max,
            cut: None,
            announced: 0,
            stream_database: 0,
        })
    }

    /// Bytes read so far.
    pub fn consumed(&self) -> u64 {
        self.input.consumed()
    }

    /// Bytes of the longest string that is given.
    pub fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    /// Keys that the file has announced so far: those of all databases that were begun.
    pub fn announced(&self) -> u64 {
        self.announced
    }

    /// The database that is chosen in the stream behind the dump, as far as was read. A master chooses one anew there,
    /// but a replica passes its master's stream on from the middle.
    pub fn stream_database(&self) -> u64 {
        self.stream_database
    }

    /// The source of the bytes, with the bytes behind the end of the dump.
    pub fn into_input(self) -> Input<B> {
        self.input
    }

    /// The next item. Parts of the value before it that were not read are skipped.
    ///
    /// # Errors
    /// The file is damaged, or has something that only a module can read.
    pub async fn next(&mut self) -> Result<Item> {
        while self.part().await?.is_some() {}
        let mut expire_at_ms = None;
        loop {
            let [opcode] = self.input.piece(take_array).await?;
            match opcode {
                EXPIRE_SECONDS => {
                    let seconds = self.input.piece(|rest| take_array(rest).map(i32::from_le_bytes)).await?;
                    expire_at_ms = Some(u64::try_from(seconds).unwrap_or(0) * 1000);
                }
                EXPIRE_MS => {
                    let at_ms = self.input.piece(|rest| take_array(rest).map(i64::from_le_bytes)).await?;
                    expire_at_ms = Some(u64::try_from(at_ms).unwrap_or(0));
                }
                IDLE => drop(self.input.piece(take_bytes_len).await?),
                FREQUENCY => drop(self.input.piece(|rest| take(rest, 1).map(drop)).await?),
                AUX => {
                    let (name, fact) = (self.name().await?, self.name().await?);
                    if name == STREAM_DATABASE {
                        let told = std::str::from_utf8(&fact).ok().and_then(|fact| fact.parse().ok());
                        self.stream_database = told.unwrap_or(self.stream_database);
                    }
                }
                RESIZE => {
                    self.announced += self.input.piece(take_bytes_len).await? as u64;
                    self.input.piece(take_bytes_len).await?;
                }
                SELECT => self.database = self.input.piece(take_bytes_len).await? as u64,
                SLOT => {
                    for _ in 0..SLOT_NUMBERS {
                        self.input.piece(take_bytes_len).await?;
                    }
                }
                FUNCTION_2 => return Ok(Item::Functions(self.name().await?)),
                FUNCTION_PRE_RELEASE => {
                    return Err(self.input.broken("functions of a release candidate of Redis 7.0"));
                }
                MODULE_AUX => {
                    let module = self.module().await?;
                    return Ok(Item::ModuleAux(module));
                }
                END => {
                    self.check_sum().await?;
                    return Ok(Item::End);
                }
                kind => return Ok(Item::Key(self.key(kind, expire_at_ms).await?)),
            }
        }
    }

    /// The next piece of the value that is given in parts; `None` after the last one.
    ///
    /// # Errors
    /// The file is damaged.
    pub async fn part(&mut self) -> Result<Option<Part>> {
        let Some(cut) = &mut self.cut else { return Ok(None) };
        let part = cut.next(&mut self.input, self.value_bytes_max).await?;
        if part.is_none() {
            self.cut = None;
        }
        Ok(part)
    }

    async fn name(&mut self) -> Result<Vec<u8>> {
        let name = self.input.string(NAME_BYTES_MAX).await?;
        name.map_err(|_| self.input.broken("a name of more than 512 MiB"))
    }

    async fn key(&mut self, kind: u8, expire_at_ms: Option<u64>) -> Result<Key> {
        let name = self.name().await?;
        let value = match kind {
            kind::STRING => match self.input.string(self.value_bytes_max).await? {
                Ok(text) => Value::Text(text),
                Err(bytes) => Value::TooLong(bytes),
            },
            kind::MODULE_2 => Value::Module(self.module().await?),
            kind::MODULE => {
                let id = self.input.piece(take_bytes_len).await? as u64;
                return Err(Failure::new(format!(
                    "the key {:?} is of the module {}, in a form of Redis 4.0's release candidates that nobody else can \
                     skip",
                    String::from_utf8_lossy(&name),
                    module_name(id)
                )));
            }
            kind => match self.whole_len(kind).await? {
                Some(len) => {
                    let body = [&[kind][..], &self.input.held()[..len]].concat();
                    self.input.consume(len);
                    Value::Whole(body)
                }
                None => {
                    self.cut = Some(Cut::new(kind));
                    Value::Parts(kind)
                }
            },
        };
        Ok(Key { database: self.database, name, expire_at_ms, value })
    }

    /// Bytes of the next value; `None` if there are too many to give it as a whole.
    async fn whole_len(&mut self, kind: u8) -> Result<Option<usize>> {
        loop {
            let mut rest = self.input.held();
            match skip_value(kind, &mut rest) {
                Ok(()) => {
                    let len = self.input.held().len() - rest.len();
                    return Ok((len <= self.whole_bytes_max).then_some(len));
                }
                Err(Lack::More) if self.input.held().len() > self.whole_bytes_max => return Ok(None),
                Err(Lack::More) => self.input.fill().await?,
                Err(Lack::Malformed) => return Err(self.input.broken(&format!("a value of type {kind} that is none"))),
            }
        }
    }

    /// Skips the data of a module, and gives the module's name.
    async fn module(&mut self) -> Result<String> {
        let id = self.input.piece(take_bytes_len).await? as u64;
        while self.input.piece(skip_module).await? {}
        Ok(module_name(id))
    }

    async fn check_sum(&mut self) -> Result {
        if self.version < CHECKSUM_SINCE {
            return Ok(());
        }
        let sum = self.input.crc();
        let written = self.input.piece(|rest| take_array(rest).map(u64::from_le_bytes)).await?;
        // A Redis without checksums writes 0.
        if written != 0 && written != sum {
            return Err(self.input.broken("a wrong checksum"));
        }
        Ok(())
    }
}

/// The name in a module's number, which has nine characters of six bits, and ten bits of a version.
fn module_name(id: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).rev().map(|at| char::from(LETTERS[(id >> (10 + 6 * at)) as usize & 63])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_names() {
        // "ReJSON-RL" of version 3.
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let at = |letter| letters.iter().position(|&one| one == letter).expect("a letter") as u64;
        let id = b"ReJSON-RL".iter().fold(0, |id, &letter| id << 6 | at(letter)) << 10 | 3;
        assert_eq!(module_name(id), "ReJSON-RL");
    }
}
