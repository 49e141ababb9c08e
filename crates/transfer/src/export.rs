//! Writes a tenant into a dump file that a Redis 7.0 reads: version 10.
//!
//! Each key is as it was at some moment, but not all keys at the same one: they are asked for page by page.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::Ordering;

use weir_command::rdb::file::{Writer, push_key, push_library, push_select};
use weir_command::rdb::kind;

use crate::failure::{Failure, Result};
use crate::import::Choice;
use crate::resp::{Connection, Reply, Requests, Verdict, judge_read};
use crate::scan::Scan;
use crate::tally::Tally;
use crate::target::{Target, select};
use crate::within::pause;

/// Bytes behind a dumped value: a version and a checksum.
const FOOTER_BYTES: usize = 10;
/// Types that a file of version 10 cannot have.
const OF_7_4: [u8; 2] = [kind::HASH_METADATA, kind::HASH_LISTPACK_EX];
/// How many values are asked for at once.
const AT_ONCE: std::ops::RangeInclusive<usize> = 1..=64;
/// About how many bytes of values are asked for at once.
const PAGE_BYTES: usize = 4 << 20;
/// Bytes of an unfinished file that are kept in memory.
const BUFFER_BYTES: usize = 1 << 20;

/// The file, and the writer behind it.
struct Out<'w, W> {
    out: &'w mut W,
    file: Writer,
}

impl<W: Write> Out<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> Result {
        self.out.write_all(bytes).map_err(|error| Failure::new(format!("writing the file: {error}")))
    }

    fn write_if_much(&mut self) -> Result {
        if self.file.waiting.len() <= BUFFER_BYTES {
            return Ok(());
        }
        let waiting = self.file.take();
        self.write(&waiting)
    }
}

/// Writes everything that is in `target` into `out`. Gives the number of bytes written. Keys that the server does not
/// dump are counted as refused.
///
/// # Errors
/// The server refuses or went away, or the file cannot be written. The unfinished file is no dump then.
pub async fn export<W: Write>(
    target: &Target,
    choice: &Choice,
    tally: &Tally,
    facts: &[(&str, &str)],
    out: &mut W,
) -> Result<u64> {
    let mut connection = target.connect().await?;
    let mut out = Out { out, file: Writer::new(facts) };
    functions(&mut connection, tally, &mut out.file.waiting).await?;
    for database in choice.chosen() {
        select(&mut connection, database).await?;
        push_database(target, &mut connection, database, tally, &mut out).await?;
    }
    let last = out.file.end();
    out.write(&last)?;
    Ok(out.file.bytes())
}

/// Writes the libraries of functions, if the server has some.
async fn functions(connection: &mut Connection, tally: &Tally, out: &mut Vec<u8>) -> Result {
    let libraries = match connection.call_patiently(&["FUNCTION", "LIST", "WITHCODE"]).await? {
        Reply::Array(Some(libraries)) => libraries,
        // A server that does not know functions has none.
        Reply::Error(error) if error.starts_with("ERR unknown command") => return Ok(()),
        Reply::Error(error) => {
            tally.refuse(0, b"FUNCTION LIST", &error);
            return Ok(());
        }
        _ => return Err(Failure::new("FUNCTION LIST is answered with something else")),
    };
    for library in libraries {
        let Reply::Array(Some(facts)) = library else { continue };
        let names = facts.iter().step_by(2).zip(facts.iter().skip(1).step_by(2));
        let code = names.filter(|(name, _)| name.text() == Some(b"library_code")).find_map(|(_, code)| code.text());
        let code = code.ok_or_else(|| Failure::new("FUNCTION LIST tells no code"))?;
        push_library(out, code);
    }
    Ok(())
}

async fn push_database<W: Write>(
    target: &Target,
    connection: &mut Connection,
    database: u8,
    tally: &Tally,
    out: &mut Out<'_, W>,
) -> Result {
    let (mut scan, mut at_once, mut has_begun) = (Scan::new(), *AT_ONCE.end(), false);
    while let Some(keys) = scan.next(connection).await? {
        let mut left: VecDeque<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        if !left.is_empty() && !std::mem::replace(&mut has_begun, true) {
            push_select(&mut out.file.waiting, database);
        }
        while !left.is_empty() {
            let some: Vec<&[u8]> = left.drain(..at_once.min(left.len())).collect();
            let Pushed { bytes, again, wait_ms } = push_keys(connection, database, &some, tally, out).await?;
            at_once = if bytes > PAGE_BYTES { at_once / 2 } else { at_once * 2 };
            at_once = at_once.clamp(*AT_ONCE.start(), *AT_ONCE.end());
            if !again.is_empty() {
                left.extend(again);
                pause(&target.clock, wait_ms).await;
            }
        }
    }
    Ok(())
}

/// The outcome for some keys.
#[derive(Default)]
struct Pushed<'k> {
    /// Bytes of their values.
    bytes: usize,
    /// Keys that the server had no time for, and after how many milliseconds it may have time.
    again: Vec<&'k [u8]>,
    wait_ms: u64,
}

/// The requests that are sent for each key.
const REQUESTS: [&[u8]; 4] = [b"MULTI", b"PEXPIRETIME", b"DUMP", b"EXEC"];

/// Writes these keys, one after the other as they come: never more than one value is in memory. The expiry and the
/// value of a key are of the same moment.
async fn push_keys<'k, W: Write>(
    connection: &mut Connection,
    database: u8,
    keys: &[&'k [u8]],
    tally: &Tally,
    out: &mut Out<'_, W>,
) -> Result<Pushed<'k>> {
    let mut requests = Requests::default();
    for key in keys {
        for name in REQUESTS {
            match name {
                b"MULTI" | b"EXEC" => requests.push(&[name]),
                name => requests.push(&[name, *key]),
            }
        }
    }
    let (mut pushed, mut at, mut refused) = (Pushed::default(), 0, None);
    let each = |reply: Reply| {
        let (key, is_last) = (keys[at / REQUESTS.len()], at % REQUESTS.len() == REQUESTS.len() - 1);
        at += 1;
        if !is_last {
            // The reason, in case the transaction is given up.
            refused = refused.take().or_else(|| reply.error().map(str::to_owned));
            return Ok(());
        }
        let error = match (refused.take(), reply) {
            (None, Reply::Array(Some(answers))) => match <[Reply; 2]>::try_from(answers) {
                Ok([Reply::Number(end), dumped]) => {
                    return push_dumped(database, key, end, dumped, tally, out, &mut pushed);
                }
                _ => return Err(Failure::new("EXEC is answered with something else")),
            },
            (Some(error), _) | (None, Reply::Error(error)) => error,
            _ => return Err(Failure::new("EXEC is answered with something else")),
        };
        match judge_read(&error) {
            Verdict::Again(wait_ms) => {
                pushed.again.push(key);
                pushed.wait_ms = pushed.wait_ms.max(wait_ms);
            }
            Verdict::End => return Err(Failure::new(error)),
            _ => tally.refuse(u64::from(database), key, &error),
        }
        Ok(())
    };
    connection.exchange_each(&requests, 0, each).await?;
    Ok(pushed)
}

/// Writes the key that expires at `end` (below 0: never) and has the value `dumped`.
fn push_dumped<W: Write>(
    database: u8,
    key: &[u8],
    end: i64,
    dumped: Reply,
    tally: &Tally,
    out: &mut Out<'_, W>,
    pushed: &mut Pushed<'_>,
) -> Result {
    match dumped {
        // The key is gone since the scan met it.
        Reply::Bulk(None) => {}
        Reply::Bulk(Some(payload)) if payload.first().is_some_and(|kind| OF_7_4.contains(kind)) => {
            tally.refuse(u64::from(database), key, "its fields have ends, for which a Redis 7.0 has no form");
        }
        Reply::Bulk(Some(payload)) if payload.len() > FOOTER_BYTES => {
            let (of_type, value) = (payload[0], &payload[1..payload.len() - FOOTER_BYTES]);
            push_key(&mut out.file.waiting, of_type, key, u64::try_from(end).ok());
            out.file.waiting.extend_from_slice(value);
            pushed.bytes += payload.len();
            tally.keys.fetch_add(1, Ordering::Relaxed);
        }
        Reply::Error(error) => tally.refuse(u64::from(database), key, &error),
        _ => return Err(Failure::new("DUMP is answered with something else")),
    }
    out.write_if_much()?;
    tally.bytes.store(out.file.bytes(), Ordering::Relaxed);
    Ok(())
}
