//! `SYNC`, `PSYNC` and `REPLCONF`: all data of a tenant as a dump file, streamed while it is made. Nobody can follow
//! this server: the connection is closed after the file.
//!
//! ```text
//! reply := ("+FULLRESYNC " history " 0\r\n")? "$EOF:" mark "\r\n" | dump file | mark | error?
//! ```
//!
//! The error says that no changes follow. It is for clients that ask for changes with `PSYNC`; a client that says
//! `REPLCONF rdb-only 1` wants nothing but the file. After `SYNC` there is no error, because tools look for the mark at
//! the end of what they have read. A file that cannot be written to its end is not followed by the mark: the connection
//! is cut, and `INFO` says why.

use std::sync::Arc;

use weir_command::error::{Error, NO_SUCH_TENANT, NOT_AN_INTEGER, Outcome, SYNTAX};
use weir_command::events::Classes;
use weir_command::number::parse_i64;
use weir_command::rdb::file::{Writer, push_library, push_select};
use weir_command::{Args, Call, Context, DATABASES, Host, Rows, lower, snapshot};
use weir_model::Databases;

use super::functions::libraries;
use super::hello::REDIS_VERSION;
use crate::resp::session::{DumpChoice, Session};
use crate::store::Store;
use crate::tenant::tenancy::Standing;

/// Keys of a page. Between two pages others are served, and what was read is paid for.
const PAGE_KEYS: usize = 100;

/// Bytes of the mark after a file.
const MARK_BYTES: usize = 40;

const NO_REPLICAS: Error = Error::new(
    "ERR this server has no replicas, and sends no changes: take a snapshot with redis-cli --rdb or weir export",
);
/// The same for a server. With this error code a server tries again after a second; with another one it tries again at
/// once, for ever.
const NO_LINK: Error = Error::new(
    "NOMASTERLINK this server has no replicas, and sends no changes: take a snapshot with redis-cli --rdb or weir \
     export",
);
const NO_MARK: Error =
    Error::new("ERR SYNC streams a dump whose end is a mark: say REPLCONF capa eof first, or use redis-cli --rdb");
const BUSY: Error = Error::new("ERR a dump of this tenant is being streamed: try again when it has ended");

/// What a replica says of itself. As in Redis, the meaning of a word is not checked if nothing depends on it.
pub(in crate::resp) async fn replconf<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let mut words = args.iter_from(1);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let choice = &mut session.dump_choice;
        match lower(name).as_slice() {
            b"listening-port" => {
                parse_i64(value).ok_or(NOT_AN_INTEGER)?;
                choice.is_server = true;
            }
            b"ip-address" => {}
            b"capa" => choice.takes_mark |= value.eq_ignore_ascii_case(b"eof"),
            b"rdb-only" => {
                let wanted = parse_i64(value).ok_or(NOT_AN_INTEGER)?;
                if !(0..=1).contains(&wanted) {
                    return Err(Error::new("ERR value is out of range, value must between 0 and 1"));
                }
                choice.is_dump_all = wanted == 1;
            }
            b"rdb-filter-only" => filter(choice, value)?,
            _ => {
                return Err(Error::bytes([b"ERR Unrecognized REPLCONF option: ", name].concat()));
            }
        }
    }
    session.outbox.replies.ok();
    Ok(())
}

/// Restricts the dump to what `wanted` names.
fn filter(choice: &mut DumpChoice, wanted: &[u8]) -> Outcome {
    (choice.without_rows, choice.without_functions) = (true, true);
    for word in wanted.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        if !word.eq_ignore_ascii_case(b"functions") {
            return Err(Error::bytes([b"ERR Unsupported rdb-filter-only option: ", word].concat()));
        }
        choice.without_functions = false;
    }
    Ok(())
}

pub(in crate::resp) async fn sync<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let choice = session.dump_choice;
    if choice.is_server {
        return Err(NO_LINK);
    }
    let wants_changes_alone = choice.without_rows && choice.without_functions;
    if wants_changes_alone {
        return Err(NO_REPLICAS);
    }
    if !choice.takes_mark {
        return Err(NO_MARK);
    }
    let account = Arc::clone(session.account()?);
    let turn = account.dumps.begin().ok_or(BUSY)?;
    // Everything that this connection has written must be in the dump.
    session.outbox.await_commits().await;
    let mark: String = (0..3).map(|_| format!("{:016x}", account.draws.next_u64())).collect();
    let mark = &mark[..MARK_BYTES];
    let would_follow = args.at(0).eq_ignore_ascii_case(b"PSYNC");
    if would_follow {
        let line = format!("+FULLRESYNC {} 0\r\n", session.outbox.server.run_id);
        session.outbox.replies.raw(line.as_bytes());
    }
    session.outbox.replies.raw(format!("$EOF:{mark}\r\n").as_bytes());
    let streamed = stream(session, choice).await;
    // If the client is gone, that is not the file's fault.
    let failed = streamed.as_ref().err().filter(|_| !session.outbox.closing);
    turn.ends(failed.map(Error::text));
    drop(turn);
    session.outbox.closing = true;
    streamed?;
    session.outbox.replies.answer_with(mark.as_bytes());
    if would_follow && !choice.is_dump_all {
        session.outbox.replies.raw(&[b"-", NO_REPLICAS.text(), b"\r\n"].concat());
    }
    Ok(())
}

async fn stream<S: Store>(session: &mut Session<S>, choice: DumpChoice) -> Outcome {
    let seconds = (session.outbox.server.clock.unix_ms() / 1000).to_string();
    let mut file = Writer::new(&[("redis-ver", REDIS_VERSION), ("redis-bits", "64"), ("ctime", seconds.as_str())]);
    if !choice.without_functions {
        let all = libraries(session).await?;
        all.iter().for_each(|library| push_library(&mut file.waiting, &library.code));
    }
    if !choice.without_rows {
        // Databases keep the names that they have now. A dump takes long, and nobody who wants to exchange databases
        // should have to wait for its end.
        let databases = session.databases();
        session.leave_databases();
        for database in 0..DATABASES {
            push_database(session, (database, databases), &mut file).await?;
        }
    }
    let last = file.end();
    session.outbox.replies.raw(&last);
    Ok(())
}

async fn push_database<S: Store>(
    session: &mut Session<S>,
    (database, databases): (u8, Databases),
    file: &mut Writer,
) -> Outcome {
    let (mut next, mut has_begun) = (Some(Vec::new()), false);
    while let Some(from) = next {
        check(session)?;
        let page = session.page_in_background(databases.number(database), &from, PAGE_KEYS).await?;
        if !page.keys.is_empty() && !std::mem::replace(&mut has_begun, true) {
            push_select(&mut file.waiting, database);
        }
        let mut call = Call { database, databases, ..session.begin_call() };
        // A key that has gone since the page was read causes no miss event.
        call.wants = Classes::NONE;
        let (store, outbox) = session.parts()?;
        let pushed = push_rows(store.rows(), outbox, &mut call, &page.keys, file).await;
        // No client has asked for these rows, so they count neither as hits nor as misses.
        (call.hits, call.misses) = (0, 0);
        session.called(call);
        pushed?;
        next = page.next;
        session.end_page().await?;
    }
    Ok(())
}

async fn push_rows(
    rows: &dyn Rows,
    host: &mut dyn Host,
    call: &mut Call,
    keys: &[Vec<u8>],
    file: &mut Writer,
) -> Outcome {
    for key in keys {
        // Each row is read at a moment of its own.
        snapshot::push_row(&mut Context::reading(rows, &mut *host, call), key, file).await?;
    }
    Ok(())
}

/// Checks that the dump may go on: it takes long, and much may happen meanwhile.
fn check<S: Store>(session: &Session<S>) -> Outcome {
    if session.outbox.server.is_draining() {
        return Err(Error::new("ERR the server is ending"));
    }
    if session.outbox.client.is_killed() {
        return Err(Error::new("ERR the connection was closed"));
    }
    match session.account()?.standing() {
        Standing::Active => Ok(()),
        Standing::Suspended => Err(Error::suspended(&session.account()?.name)),
        Standing::Dropped => Err(NO_SUCH_TENANT),
    }
}
