//! `DEBUG`: what tests of Redis and of its clients need. It exists only if whoever started the server has allowed it
//! (`weir serve --allow-debug`).
//!
//! None of it reaches beyond the asking tenant: `SLEEP` delays only this connection, or the script that asks for it.
//! Subcommands that would stop or damage a server, or expose what is in it, do not exist.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_command::error::{Error, NO_SUCH_KEY, Outcome};
use weir_command::reply::{Protocol, Replies};
use weir_command::{Args, Headless, Request, lower};
use weir_io::{Clock, Rng, Sleep, sleep_until};

use crate::resp::hints::parse_bytes;
use crate::resp::outbox::YIELD;
use crate::resp::session::Session;
use crate::store::Store;

/// No subcommand has a name as long as this.
const NAME_BYTES_MAX: usize = 64;
/// The number that Redis shows. Tests compare its digits; it is not pi.
const DOUBLE: f64 = 3141.0 / 1000.0;
/// Longest `DEBUG SLEEP`, in seconds.
const SLEEP_SECONDS_MAX: f64 = 60.0;
/// Bytes around a dumped value that are not its own: its type, a version, a checksum.
const DUMP_FRAME_BYTES: usize = 11;

const NOT_ALLOWED: Error = Error::new(
    "ERR DEBUG command not allowed. It is for tests: whoever starts the server allows it with --allow-debug.",
);
const NO_SUCH_PROTOCOL: Error = Error::new(
    "ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);

const HELP: [&str; 13] = [
    "CHANGE-REPL-ID | PAUSE-CRON <0|1>: accepted, change nothing.",
    "ERROR <text>: an error.",
    "LISTPACK <key>: whether Redis would keep it as a listpack.",
    "LOADAOF | RELOAD: all partitions are closed, and opened again from disk.",
    "LOG <text>: a line in the server's log, at its level debug.",
    "OBJECT <key>: how Redis would keep it, also if it has expired and is still stored.",
    "PROTOCOL <type>: a reply of that type.",
    "QUICKLIST-PACKED-THRESHOLD <bytes>: accepted, changes nothing.",
    "SET-ACTIVE-EXPIRE <0|1>: whether keys that expire are deleted and told unasked.",
    "SET-DISABLE-DENY-SCRIPTS <0|1>: whether scripts may ask for PROTOCOL and SLEEP.",
    "SLEEP <seconds>: this connection waits, 60 seconds at most; a script, one.",
    "Nothing else of Redis' is there.",
    "HELP: this text.",
];

/// Runs a subcommand of `DEBUG`.
pub(super) async fn debug<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    if !session.outbox.server.settings.allow_debug {
        return Err(NOT_ALLOWED);
    }
    // Some arguments are longer than any keyword.
    let subcommand = args.at(1)[..args.at(1).len().min(NAME_BYTES_MAX)].to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"sleep", 3) => {
            let clock = Arc::clone(&session.outbox.server.clock);
            session.outbox.while_pushing(sleep(&clock, args.at(2), SLEEP_SECONDS_MAX)).await;
            session.outbox.replies.ok();
        }
        (b"set-disable-deny-scripts", 3) => {
            session.account()?.scripts.may_debug.store(args.at(2) != b"0", Ordering::Relaxed);
            session.outbox.replies.ok();
        }
        (b"set-active-expire", 3) => {
            if let Some(expirations) = session.store()?.expirations() {
                expirations.wait_to_be_asked(args.at(2) == b"0");
            }
            session.outbox.replies.ok();
        }
        // Unlike Redis, this server has no periodic rounds that would tell clients something in the middle of their
        // requests.
        (b"pause-cron", 3) | (b"change-repl-id", 2) => session.outbox.replies.ok(),
        (b"quicklist-packed-threshold", 3) => {
            let text = std::str::from_utf8(args.at(2)).unwrap_or_default();
            parse_bytes(text)
                .filter(|bytes| *bytes < 4 << 30)
                .ok_or(Error::new("ERR argument must be a memory value bigger than 1 and smaller than 4gb"))?;
            session.outbox.replies.ok();
        }
        (b"reload" | b"loadaof", 2..) => {
            session.outbox.await_commits().await;
            session.store()?.reopen().await;
            session.outbox.replies.ok();
        }
        (b"object", 3..) => object(session, args.at(2)).await?,
        (b"listpack", 3) => {
            let now_ms = session.call().now_ms;
            if encoding(session, now_ms, args.at(2)).await? != b"listpack" {
                return Err(Error::new("ERR Not a listpack encoded object."));
            }
            session.outbox.replies.simple("Listpack structure printed on stdout");
        }
        (b"protocol", 3) => protocol(&mut session.outbox.replies, args.at(2))?,
        (b"error", 3) => return Err(Error::bytes(args.at(2).to_vec())),
        (b"log", 3) => {
            tracing::debug!("DEBUG LOG: {}", args.at(2)[..args.at(2).len().min(256)].escape_ascii());
            session.outbox.replies.ok();
        }
        (b"help", 2) => session.outbox.replies.help("DEBUG", &HELP),
        _ => return Err(Error::subcommand("debug", args.at(1))),
    }
    Ok(())
}

/// Is done after so many `seconds`, and `seconds_max` at the latest. What is not a number counts as 0.
pub(in crate::resp) fn sleep(clock: &Arc<dyn Clock>, seconds: &[u8], seconds_max: f64) -> Sleep {
    let seconds = std::str::from_utf8(seconds).ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    sleep_until(clock, clock.now() + (seconds.clamp(0.0, seconds_max) * 1e9) as u64)
}

/// The answer of a command on rows about one key, in RESP2, as of `now_ms`. An error if there is no such key then.
async fn asked<S: Store>(session: &mut Session<S>, now_ms: u64, words: &[&[u8]]) -> Outcome<Vec<u8>> {
    let request = Request::new(session.database(), now_ms, words.iter().copied());
    let mut host = Headless::new(Protocol::Resp2, YIELD, Rng::new(0));
    let answer = session.store()?.answer(&request, &mut host).await?;
    let body = answer.strip_suffix(b"\r\n").unwrap_or_default();
    let begin = body.iter().position(|&byte| byte == b'\n').ok_or(NO_SUCH_KEY)? + 1;
    Ok(body[begin..].to_vec())
}

async fn encoding<S: Store>(session: &mut Session<S>, now_ms: u64, key: &[u8]) -> Outcome<Vec<u8>> {
    asked(session, now_ms, &[b"OBJECT", b"ENCODING", key]).await
}

/// Addresses are not shown, and it is not known when a key was last read.
async fn object<S: Store>(session: &mut Session<S>, key: &[u8]) -> Outcome {
    // As in Redis, a key that has expired is seen until it is deleted: nothing had expired at this moment.
    let now_ms = 0;
    let encoding = String::from_utf8_lossy(&encoding(session, now_ms, key).await?).into_owned();
    let bytes = asked(session, now_ms, &[b"DUMP", key]).await?.len().saturating_sub(DUMP_FRAME_BYTES);
    session.outbox.replies.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:0 lru_seconds_idle:0"
    ));
    Ok(())
}

/// Writes a reply of the type that `kind` names: one of those that the protocol has.
pub(in crate::resp) fn protocol(replies: &mut Replies, kind: &[u8]) -> Outcome {
    let is_new = replies.protocol == Protocol::Resp3;
    let kind = lower(kind);
    match kind.as_slice() {
        b"string" => replies.bulk(b"Hello World"),
        b"integer" => replies.integer(12345),
        b"double" => replies.double(DOUBLE),
        b"null" => replies.null(),
        b"array" => {
            replies.array(3);
            (0..3).for_each(|number| replies.integer(number));
        }
        b"set" => {
            replies.set(3);
            (0..3).for_each(|number| replies.integer(number));
        }
        b"map" if is_new => replies.answer_with(b"%3\r\n:0\r\n#f\r\n:1\r\n#t\r\n:2\r\n#f\r\n"),
        b"map" => replies.answer_with(b"*6\r\n:0\r\n:0\r\n:1\r\n:1\r\n:2\r\n:0\r\n"),
        b"attrib" if is_new => replies.answer_with(
            b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n\
              $39\r\nSome real reply following the attribute\r\n",
        ),
        b"attrib" => replies.bulk(b"Some real reply following the attribute"),
        b"push" if is_new => replies.answer_with(
            b">2\r\n$16\r\nserver-cpu-usage\r\n:42\r\n$40\r\nSome real reply following the push reply\r\n",
        ),
        b"push" => return Err(Error::new("ERR RESP2 is not supported by this command")),
        b"verbatim" => replies.text("This is a verbatim\nstring"),
        b"true" if is_new => replies.answer_with(b"#t\r\n"),
        b"true" => replies.integer(1),
        b"false" if is_new => replies.answer_with(b"#f\r\n"),
        b"false" => replies.integer(0),
        b"bignum" if is_new => replies.answer_with(b"(1234567999999999999999999999999999999\r\n"),
        b"bignum" => replies.bulk(b"1234567999999999999999999999999999999"),
        _ => return Err(NO_SUCH_PROTOCOL),
    }
    Ok(())
}
