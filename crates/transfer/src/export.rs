//! A tenant into a dump file that a Redis 7.0 reads: version 10.
//!
//! Each key is as it was at one moment, not all of them at the same one: keys are asked for page by page.

use std::io::Write;
use std::sync::atomic::Ordering;

use weir_command::rdb::file::{END, FUNCTION_2, push_header, push_key, push_select};
use weir_command::rdb::{crc64, kind, push_string};

use crate::failure::{Failure, Result};
use crate::import::{Choice, MARK};
use crate::resp::{Connection, Reply, Requests};
use crate::tally::Tally;
use crate::target::{DATABASES, Target, Verdict, judge, select};
use crate::within::pause;

/// Behind a dumped value: a version and a checksum.
const FOOTER_BYTES: usize = 10;
/// Types that a file of version 10 cannot have.
const OF_7_4: [u8; 2] = [kind::HASH_METADATA, kind::HASH_LISTPACK_EX];
/// Values that are asked for at once.
const AT_ONCE: std::ops::RangeInclusive<usize> = 1..=64;
/// Bytes of values at once, about.
const PAGE_BYTES: usize = 4 << 20;
/// What an unfinished file holds in memory.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that is written, with the checksum of all of it.
struct Summed<'w, W> {
    out: &'w mut W,
    held: Vec<u8>,
    crc: u64,
    bytes: u64,
}

impl<W: Write> Summed<'_, W> {
    fn flush(&mut self) -> Result {
        self.crc = crc64(self.crc, &self.held);
        self.bytes += self.held.len() as u64;
        self.out.write_all(&self.held).map_err(|error| Failure::new(format!("writing the file: {error}")))?;
        self.held.clear();
        Ok(())
    }
}

/// Writes everything that is in `target` into `out`. Gives its bytes. What the server does not dump is counted as
/// refused.
///
/// # Errors
/// The server refuses or went away, or the file cannot be written: what there is of it is no dump then.
pub async fn export<W: Write>(
    target: &Target,
    choice: &Choice,
    tally: &Tally,
    facts: &[(&str, &str)],
    out: &mut W,
) -> Result<u64> {
    let mut connection = target.connect().await?;
    let mut file = Summed { out, held: Vec::new(), crc: 0, bytes: 0 };
    push_header(&mut file.held, facts);
    functions(&mut connection, &mut file.held).await?;
    for database in (0..DATABASES).filter(|&database| choice.has(u64::from(database))) {
        select(&mut connection, database).await?;
        push_database(target, &mut connection, database, tally, &mut file).await?;
    }
    file.held.push(END);
    file.flush()?;
    file.held.extend_from_slice(&file.crc.to_le_bytes());
    file.flush()?;
    Ok(file.bytes)
}

/// Libraries of functions, where the server has some.
async fn functions(connection: &mut Connection, out: &mut Vec<u8>) -> Result {
    // A server without functions refuses.
    let Reply::Array(Some(libraries)) = connection.call(&["FUNCTION", "LIST", "WITHCODE"]).await? else {
        return Ok(());
    };
    for library in libraries {
        let Reply::Array(Some(facts)) = library else { continue };
        let names = facts.iter().step_by(2).zip(facts.iter().skip(1).step_by(2));
        let code = names.filter(|(name, _)| name.text() == Some(b"library_code")).find_map(|(_, code)| code.text());
        if let Some(code) = code {
            out.push(FUNCTION_2);
            push_string(out, code);
        }
    }
    Ok(())
}

async fn push_database<W: Write>(
    target: &Target,
    connection: &mut Connection,
    database: u8,
    tally: &Tally,
    file: &mut Summed<'_, W>,
) -> Result {
    let (mut cursor, mut at_once, mut has_begun) = (b"0".to_vec(), *AT_ONCE.end(), false);
    loop {
        let reply = patient(target, connection, &[b"SCAN".as_slice(), &cursor, b"COUNT", b"500"]).await?;
        let (next, keys) = page(&reply).ok_or_else(|| Failure::new("SCAN is answered with something else"))?;
        let keys: Vec<&[u8]> = keys.into_iter().filter(|&key| key != MARK).collect();
        if !keys.is_empty() && !std::mem::replace(&mut has_begun, true) {
            push_select(&mut file.held, database);
        }
        let mut rest = &keys[..];
        while !rest.is_empty() {
            let (some, after) = rest.split_at(at_once.min(rest.len()));
            let bytes = push_keys(target, connection, database, some, tally, file).await?;
            at_once = if bytes > PAGE_BYTES { at_once / 2 } else { at_once * 2 };
            at_once = at_once.clamp(*AT_ONCE.start(), *AT_ONCE.end());
            rest = after;
        }
        cursor = next.to_vec();
        if cursor == b"0" {
            return Ok(());
        }
    }
}

fn page(reply: &Reply) -> Option<(&[u8], Vec<&[u8]>)> {
    let Reply::Array(Some(both)) = reply else { return None };
    let Reply::Array(Some(keys)) = both.get(1)? else { return None };
    Some((both.first()?.text()?, keys.iter().filter_map(Reply::text).collect()))
}

/// Writes these keys; gives the bytes of their values.
async fn push_keys<W: Write>(
    target: &Target,
    connection: &mut Connection,
    database: u8,
    keys: &[&[u8]],
    tally: &Tally,
    file: &mut Summed<'_, W>,
) -> Result<usize> {
    let mut requests = Requests::default();
    for key in keys {
        requests.push(&[b"PEXPIRETIME".as_slice(), key]);
        requests.push(&[b"DUMP".as_slice(), key]);
    }
    let mut replies = connection.exchange(&requests, 0).await?.into_iter();
    let mut bytes = 0;
    for key in keys {
        let (Some(mut end), Some(mut dumped)) = (replies.next(), replies.next()) else { break };
        if end.error().is_some() {
            end = patient(target, connection, &[b"PEXPIRETIME".as_slice(), key]).await?;
        }
        if dumped.error().is_some_and(|error| matches!(judge(error, false), Verdict::Again(_))) {
            dumped = patient(target, connection, &[b"DUMP".as_slice(), key]).await?;
        }
        match (end, dumped) {
            // Gone since it was met.
            (_, Reply::Bulk(None)) => {}
            (_, Reply::Bulk(Some(payload))) if payload.first().is_some_and(|kind| OF_7_4.contains(kind)) => {
                tally.refuse(u64::from(database), key, "its fields have ends, for which a Redis 7.0 has no form");
            }
            (Reply::Number(end), Reply::Bulk(Some(payload))) if payload.len() > FOOTER_BYTES => {
                let (of_type, value) = (payload[0], &payload[1..payload.len() - FOOTER_BYTES]);
                push_key(&mut file.held, of_type, key, u64::try_from(end).ok());
                file.held.extend_from_slice(value);
                bytes += payload.len();
                tally.keys.fetch_add(1, Ordering::Relaxed);
            }
            (_, Reply::Error(error)) => tally.refuse(u64::from(database), key, &error),
            _ => return Err(Failure::new("DUMP is answered with something else")),
        }
        if file.held.len() > BUFFER_BYTES {
            file.flush()?;
            tally.bytes.store(file.bytes, Ordering::Relaxed);
        }
    }
    Ok(bytes)
}

/// What the server answers when it has time: until then it is asked again.
async fn patient(target: &Target, connection: &mut Connection, words: &[&[u8]]) -> Result<Reply> {
    loop {
        let reply = connection.call(words).await?;
        match reply.error().map(|error| judge(error, false)) {
            Some(Verdict::Again(wait_ms)) => pause(&target.clock, wait_ms).await,
            Some(_) if words[0] == b"DUMP" => return Ok(reply),
            Some(_) => return Err(Failure::new(reply.error().unwrap_or_default())),
            None => return Ok(reply),
        }
    }
}
