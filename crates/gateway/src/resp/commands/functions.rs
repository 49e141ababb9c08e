//! `FUNCTION`: the libraries of a tenant.

use std::sync::Arc;

use weir_command::error::{Error, Outcome};
use weir_command::glob::{self, Glob};
use weir_command::rdb::{Refusal, functions as dumped};
use weir_command::reply::Replies;
use weir_command::{Args, lower};
use weir_script::{FLAGS, Libraries, Library, World};

use super::check_words;
use crate::resp::outbox::YIELD;
use crate::resp::session::Session;
use crate::scripts::{FUNCTIONS_BYTES_MAX, Job, TOO_LONG};
use crate::store::Store;

const HELP: [&str; 10] = [
    "DELETE <library>: deletes a library.",
    "DUMP: all libraries, in the format of Redis' dump files.",
    "FLUSH [ASYNC|SYNC]: deletes all libraries.",
    "KILL: ends the scripts and functions that run. Nothing of them is written.",
    "LIST [LIBRARYNAME <pattern>] [WITHCODE]: the libraries and their functions.",
    "LOAD [REPLACE] <code>: makes a library, gives its name.",
    "RESTORE <payload> [APPEND|REPLACE|FLUSH]: adds what was dumped: to what is there (APPEND), in place of libraries of",
    "    the same names (REPLACE), or of all (FLUSH).",
    "STATS: the function that runs, and how many there are.",
    "HELP: this text.",
];

const LOAD_TOO_LONG: Error = Error::new("ERR FUNCTION LOAD timeout: the library took longer than 10 seconds");
const NO_LIBRARY: Error = Error::new("ERR Library not found");
const NO_PAYLOAD: Error = Error::new("ERR DUMP payload version or checksum are wrong");

pub(in crate::resp) async fn function<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    let most = match subcommand.as_slice() {
        b"restore" => 4,
        b"flush" => 3,
        _ => usize::MAX,
    };
    if args.len() > most {
        return Err(Error::subcommand("function", args.at(1)));
    }
    match subcommand.as_slice() {
        b"load" => load(session, args).await,
        b"delete" => {
            let name = String::from_utf8_lossy(args.at(2)).into_owned();
            change(session, |all| if all.remove(&name) { Ok(()) } else { Err(NO_LIBRARY) }).await?;
            session.outbox.replies.ok();
            Ok(())
        }
        b"flush" => {
            if args.get(2).is_some_and(|how| ![&b"sync"[..], b"async"].contains(&lower(how).as_slice())) {
                return Err(Error::new("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
            }
            change(session, |all| {
                *all = Libraries::default();
                Ok(())
            })
            .await?;
            session.outbox.replies.ok();
            Ok(())
        }
        b"list" => list(session, args).await,
        b"dump" => {
            let all = libraries(session).await?;
            let payload = dumped::encode(all.iter().map(|library| &library.code[..]), YIELD).await;
            session.outbox.replies.bulk(&payload);
            Ok(())
        }
        b"restore" => restore(session, args).await,
        b"kill" => {
            if !session.account()?.scripts.kill() {
                return Err(Error::new("NOTBUSY No scripts in execution right now."));
            }
            session.outbox.replies.ok();
            Ok(())
        }
        b"stats" => stats(session).await,
        _ => {
            session.outbox.replies.help("FUNCTION", &HELP);
            Ok(())
        }
    }
}

/// The tenant's libraries.
pub(super) async fn libraries<S: Store>(session: &mut Session<S>) -> Outcome<Arc<Libraries>> {
    let account = Arc::clone(session.account()?);
    let (store, now_ms) = (session.store()?.clone(), session.call().now_ms);
    account.scripts.functions.get(&store, now_ms).await
}

async fn change<S: Store, R>(
    session: &mut Session<S>,
    change: impl FnOnce(&mut Libraries) -> Outcome<R>,
) -> Outcome<R> {
    let account = Arc::clone(session.account()?);
    let (store, now_ms) = (session.store()?.clone(), session.call().now_ms);
    account.scripts.functions.change(&store, now_ms, change).await
}

/// The library of this code. The code is run to see what it registers.
async fn library<S: Store>(session: &mut Session<S>, code: &[u8]) -> Outcome<Library> {
    if let Some(max) = session.store()?.disk_limit_reached() {
        return Err(Error::disk_full(max));
    }
    let (account, server) = (Arc::clone(session.account()?), Arc::clone(&session.outbox.server));
    let running = account.scripts.begin(&server.clock, None).await?;
    let loaded = Job::load(&server.script_threads, code.to_vec(), Arc::clone(&running.control) as Arc<dyn World>).await;
    loaded.map_err(|error| if error == TOO_LONG { LOAD_TOO_LONG } else { error })
}

async fn load<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let options = args.len() - 3;
    let replaces = match args.iter_from(2).take(options).find(|option| lower(option).as_slice() != b"replace") {
        None => options > 0,
        Some(option) => return Err(Error::bytes([b"ERR Unknown option given: ", option].concat())),
    };
    let library = library(session, args.at(args.len() - 1)).await?;
    let name = library.name.clone();
    change(session, |all| all.add(library, replaces)).await?;
    session.outbox.replies.bulk(name.as_bytes());
    Ok(())
}

async fn restore<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let policy = args.get(3).map_or_else(|| lower(b"append"), lower);
    if ![&b"append"[..], b"replace", b"flush"].contains(&policy.as_slice()) {
        return Err(Error::new("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."));
    }
    let codes = dumped::decode(args.at(2), FUNCTIONS_BYTES_MAX, YIELD).await.map_err(|refusal| match refusal {
        Refusal::VersionOrChecksum => NO_PAYLOAD,
        Refusal::Format => Error::new("ERR given type is not a function"),
        Refusal::TooLong | Refusal::TooMany | Refusal::NoRoom => {
            Error::new("ERR a tenant's functions are at most 1 MB long together")
        }
    })?;
    let mut restored = Vec::new();
    for code in codes {
        restored.push(library(session, &code).await?);
    }
    change(session, |all| {
        if policy.as_slice() == b"flush" {
            *all = Libraries::default();
        }
        restored.into_iter().try_for_each(|library| {
            let taken = Error::bytes(format!("ERR Library {} already exists", library.name).into_bytes());
            let is_taken = policy.as_slice() != b"replace" && all.get(&library.name).is_some();
            if is_taken { Err(taken) } else { all.add(library, true) }
        })
    })
    .await?;
    session.outbox.replies.ok();
    Ok(())
}

async fn list<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let (mut pattern, mut with_code, mut words) = (None, false, args.iter_from(2));
    check_words(args.len() - 2, "FUNCTION LIST", "options")?;
    while let Some(word) = words.next() {
        match lower(word).as_slice() {
            b"withcode" if !with_code => with_code = true,
            b"libraryname" if pattern.is_none() => {
                let name = words.next().ok_or(Error::new("ERR library name argument was not given"))?;
                pattern = Some(Glob::new(glob::checked(name)?));
            }
            _ => return Err(Error::bytes([b"ERR Unknown argument ", word].concat())),
        }
    }
    let all = libraries(session).await?;
    let mut shown = Vec::new();
    let mut turn = glob::Turn::new(YIELD);
    for library in all.iter() {
        if match &pattern {
            Some(pattern) => pattern.matches_in_turns(library.name.as_bytes(), &mut turn).await,
            None => true,
        } {
            shown.push(library);
        }
    }
    let replies = &mut session.outbox.replies;
    replies.array(shown.len());
    shown.into_iter().for_each(|library| tell(replies, library, with_code));
    Ok(())
}

fn tell(replies: &mut Replies, library: &Library, with_code: bool) {
    replies.map(3 + usize::from(with_code));
    replies.bulk(b"library_name");
    replies.bulk(library.name.as_bytes());
    replies.bulk(b"engine");
    replies.bulk(b"LUA");
    replies.bulk(b"functions");
    replies.array(library.functions.len());
    for function in &library.functions {
        replies.map(3);
        replies.bulk(b"name");
        replies.bulk(function.name.as_bytes());
        replies.bulk(b"description");
        match &function.description {
            Some(description) => replies.bulk(description),
            None => replies.null(),
        }
        replies.bulk(b"flags");
        let flags: Vec<&str> =
            (0..FLAGS.len()).filter(|bit| function.flags >> bit & 1 == 1).map(|bit| FLAGS[bit]).collect();
        replies.set(flags.len());
        flags.into_iter().for_each(|flag| replies.simple(flag));
    }
    if with_code {
        replies.bulk(b"library_code");
        replies.bulk(&library.code);
    }
}

async fn stats<S: Store>(session: &mut Session<S>) -> Outcome {
    let all = libraries(session).await?;
    let account = Arc::clone(session.account()?);
    let now = session.outbox.server.clock.now();
    let replies = &mut session.outbox.replies;
    replies.map(2);
    replies.bulk(b"running_script");
    match account.scripts.running_function() {
        Some((function, began)) => {
            replies.map(3);
            replies.bulk(b"name");
            replies.bulk(function.name.as_bytes());
            replies.bulk(b"command");
            replies.array(function.command.len());
            function.command.iter().for_each(|word| replies.bulk(word));
            replies.bulk(b"duration_ms");
            replies.integer((now.saturating_sub(began) / 1_000_000) as i64);
        }
        None => replies.null(),
    }
    replies.bulk(b"engines");
    replies.map(1);
    replies.bulk(b"LUA");
    replies.map(2);
    replies.bulk(b"libraries_count");
    replies.integer(all.iter().len() as i64);
    replies.bulk(b"functions_count");
    replies.integer(all.functions() as i64);
    Ok(())
}
