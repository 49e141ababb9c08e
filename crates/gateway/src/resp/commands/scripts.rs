//! `SCRIPT`: scripts that are kept for `EVALSHA`, and those that are running.

use std::sync::Arc;

use weir_command::error::{Error, Outcome};
use weir_command::{Args, lower, number};
use weir_script::{Script, digest_text, parse_digest};

use super::check_words;
use crate::resp::session::Session;
use crate::scripts::{Job, Known};
use crate::store::Store;

const HELP: [&str; 5] = [
    "EXISTS <sha1> [<sha1> ...]: whether these scripts are kept.",
    "FLUSH [ASYNC|SYNC]: forgets all scripts.",
    "KILL: ends the scripts that run. Nothing of them is written.",
    "LOAD <script>: keeps a script, gives its digest.",
    "HELP: this text.",
];

/// How many of the words of an `EVAL` or an `FCALL` are keys. If there is no number, the error is `no_number`.
///
/// # Errors
/// The words contain no valid number.
pub(in crate::resp) fn number_of_keys(args: Args<'_>, no_number: Error) -> Outcome<usize> {
    let keys = number::parse_i64(args.at(2)).ok_or(no_number)?;
    if keys > args.len() as i64 - 3 {
        return Err(Error::new("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(keys).map_err(|_| Error::new("ERR Number of keys can't be negative"))
}

pub(in crate::resp) async fn script<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    let account = Arc::clone(session.account()?);
    let scripts = &account.scripts;
    match subcommand.as_slice() {
        b"load" => {
            let known = Arc::new(Known::new(Script::parse(args.at(2))?));
            let place = scripts.place().await?;
            Job::check(&session.outbox.server.script_threads, Arc::clone(&known.script)).await?;
            drop(place);
            scripts.cache.lock().put(&known);
            session.outbox.replies.bulk(digest_text(&known.script.digest).as_bytes());
        }
        b"exists" => {
            check_words(args.len() - 2, "SCRIPT EXISTS", "digests")?;
            let cache = scripts.cache.lock();
            let known: Vec<bool> =
                args.iter_from(2).map(|word| parse_digest(word).is_some_and(|digest| cache.has(&digest))).collect();
            drop(cache);
            session.outbox.replies.array(known.len());
            known.into_iter().for_each(|is_known| session.outbox.replies.integer(i64::from(is_known)));
        }
        b"flush" => {
            let is_unknown = |how| ![&b"sync"[..], b"async"].contains(&lower(how).as_slice());
            if args.len() > 3 || args.get(2).is_some_and(is_unknown) {
                return Err(Error::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
            }
            scripts.cache.lock().clear();
            session.outbox.replies.ok();
        }
        b"kill" => {
            if !scripts.kill() {
                return Err(Error::new("NOTBUSY No scripts in execution right now."));
            }
            session.outbox.replies.ok();
        }
        b"debug" => match lower(args.at(2)).as_slice() {
            b"no" => session.outbox.replies.ok(),
            b"yes" | b"sync" => return Err(Error::new("ERR there is no debugger of scripts")),
            _ => return Err(Error::new("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
        },
        b"help" => session.outbox.replies.help("SCRIPT", &HELP),
        _ => return Err(Error::unknown_subcommand("script", args.at(1))),
    }
    Ok(())
}
