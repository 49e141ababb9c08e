//! The tenant that data is imported into; we write as one of its clients.

mod batch;
mod breaks;
mod expiry;
mod lane;
mod lanes;
mod parts;
mod texts;

use std::sync::Arc;

use tokio::sync::watch;
use weir_io::Clock;

use crate::address::Address;
use crate::failure::{Failure, Result};
use crate::resp::{Connection, Reply, Verdict, is_full, judge, request_len};
use crate::within::{SECOND, pause, unless_told};

pub use self::batch::Batch;
pub use self::breaks::Breaks;
pub use self::expiry::{ExpiryPause, end_expiry_pause, keep_expiry_paused};
pub use self::lanes::Lanes;
pub use self::parts::{Whole, push_function, push_part, push_whole};

/// How long the target may be away, in seconds.
pub const AWAY_SECONDS: u64 = 300;
/// Number of databases that a tenant has.
pub const DATABASES: u8 = 16;
/// Most words of a request that a tenant takes: behind one of more it closes the connection.
pub const WORDS_MAX: usize = 1 << 20;
/// Bytes of the longest value, if the target does not say.
const VALUE_BYTES_MAX: usize = 64 << 20;
/// A request may be twice as long as the longest value, and at least this long.
const REQUEST_BYTES_MIN: usize = 16 << 20;

/// A tenant, and how to reach it.
#[derive(Clone)]
pub struct Target {
    /// The server's port for clients, and the tenant's login.
    pub address: Address,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// How the tenant's expiry is paused; `None` = keys expire by its clock.
    pub expiry_pause: Option<Arc<ExpiryPause>>,
    /// Becomes true when the work is told to end: then a target that is away, or does not answer, is not waited for.
    pub stop: Option<watch::Receiver<bool>>,
}

impl Target {
    /// A tenant whose keys expire by its clock.
    pub fn new(address: Address, clock: Arc<dyn Clock>) -> Self {
        Self { address, clock, expiry_pause: None, stop: None }
    }

    /// Whether the work is told to end.
    fn is_told_to_end(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| *stop.borrow())
    }

    /// Whether a key with this deadline, in milliseconds since 1970, need not be written: it has expired.
    pub fn has_expired(&self, expire_at_ms: u64) -> bool {
        let now_ms = self.clock.unix_ms();
        expire_at_ms <= self.expiry_pause.as_ref().map_or(now_ms, |paused| paused.at_ms().min(now_ms))
    }

    /// Opens a connection, logs in, and pauses the tenant's expiry if that is wanted.
    ///
    /// # Errors
    /// There is no server, or it refuses the login or the pause.
    pub async fn connect(&self) -> Result<Connection> {
        unless_told(&self.clock, self.stop.clone(), self.connect_now()).await
    }

    async fn connect_now(&self) -> Result<Connection> {
        let mut connection = Connection::open(&self.address, &self.clock).await?;
        connection.heed(self.stop.clone());
        match connection.call(&["PING"]).await? {
            Reply::Error(error) if error.starts_with("NOAUTH") => {
                Err(Failure::new(format!("{}: a login is asked for ({error})", self.address)))
            }
            Reply::Error(error) => {
                let message = format!("{}: {error}", self.address);
                Err(match judge(&error, false) {
                    Verdict::Again(_) => Failure::broken(message),
                    _ if is_full(&error) => Failure::broken(message),
                    _ => Failure::new(message),
                })
            }
            _ => {
                if let Some(expiry_pause) = &self.expiry_pause {
                    expiry_pause.renew(&mut connection).await?;
                }
                Ok(connection)
            }
        }
    }

    /// Like [`connect`](Self::connect), but tries again for a while: the server may be restarting.
    ///
    /// # Errors
    /// The server stayed away, or was away when the work was told to end, or refuses the login.
    pub async fn connect_again(&self) -> Result<Connection> {
        let begin = self.clock.now();
        let mut wait_ms = 50;
        loop {
            match self.connect().await {
                Ok(connection) => return Ok(connection),
                Err(failure) if failure.remedy == crate::failure::Remedy::None || self.is_told_to_end() => {
                    return Err(failure);
                }
                Err(failure) if self.clock.now() - begin > AWAY_SECONDS * SECOND => {
                    return Err(Failure::new(format!("{failure}; it was tried for {AWAY_SECONDS} s")));
                }
                Err(_) => pause(&self.clock, wait_ms).await,
            }
            wait_ms = (wait_ms * 2).min(2_000);
        }
    }

    /// Bytes of the longest value that the tenant takes.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn value_bytes_max(&self, connection: &mut Connection) -> Result<usize> {
        let reply = connection.call(&["CONFIG", "GET", "proto-max-bulk-len"]).await?;
        let told = match &reply {
            Reply::Array(Some(words)) => words.get(1).and_then(Reply::text),
            _ => None,
        };
        let told = told.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        Ok(told.unwrap_or(VALUE_BYTES_MAX))
    }

    /// How many partitions the tenant has: one, if the server does not tell.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn partitions(&self, connection: &mut Connection) -> Result<usize> {
        let reply = connection.call(&["INFO", "persistence"]).await?;
        let text = reply.text().map(String::from_utf8_lossy).unwrap_or_default();
        let told = text.lines().find_map(|line| line.strip_prefix("partitions:"));
        Ok(told.and_then(|count| count.trim_end().parse().ok()).unwrap_or(1))
    }

    /// The databases in which the tenant has keys.
    ///
    /// # Errors
    /// The connection broke, or the server refuses to tell.
    pub async fn used_databases(&self, connection: &mut Connection) -> Result<Vec<u8>> {
        let mut used = Vec::new();
        for database in 0..DATABASES {
            select(connection, database).await?;
            if connection.ask(&["RANDOMKEY"]).await? != Reply::Bulk(None) {
                used.push(database);
            }
        }
        Ok(used)
    }
}

/// Bytes of the longest request that a tenant takes whose longest value has `value_bytes_max` bytes: behind a longer
/// one it closes the connection.
pub fn request_bytes_max(value_bytes_max: usize) -> usize {
    value_bytes_max.saturating_mul(2).max(REQUEST_BYTES_MIN)
}

/// Why a tenant whose longest value has `value_bytes_max` bytes closes the connection behind a request of these words;
/// `None` if it takes the request.
pub fn too_long<W: AsRef<[u8]>>(words: &[W], value_bytes_max: usize) -> Option<String> {
    let longest = words.iter().map(|word| word.as_ref().len()).max().unwrap_or(0);
    if longest > value_bytes_max {
        return Some(format!("its name, or something in it, has {longest} bytes, more than the target takes"));
    }
    let (len, count) = (request_len(words), words.len());
    let is_taken = len <= request_bytes_max(value_bytes_max) && count <= WORDS_MAX;
    (!is_taken).then(|| format!("a part of it has {len} bytes in {count} words, more than the target takes at once"))
}

/// Chooses a database.
///
/// # Errors
/// The connection broke, or there is no database of this number.
pub async fn select(connection: &mut Connection, database: u8) -> Result {
    connection.ask(&["SELECT", &database.to_string()]).await.map(drop)
}
