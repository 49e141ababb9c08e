//! A connection whose command is answered later ([`crate::resp::ticket`]).
//!
//! The commands before it are answered first. Then the connection serves nothing until the wait ends, and costs little,
//! because it has no buffer for replies. It continues to read, so that it notices when its client goes, and it is sent
//! messages.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use weir_command::error::{Error, Outcome};
use weir_command::reply::Replies;
use weir_command::{Args, Command, Request, Wait, rows_of};
use weir_io::{Nanos, sleep_until};
use weir_model::StoredKey;

use super::Connection;
use crate::pool;
use crate::resp::client::Phase;
use crate::resp::commands::gone;
use crate::resp::input::Input;
use crate::resp::rights::Origin;
use crate::resp::ticket::{Blocked, BlockedOnRows, Ending, Later};
use crate::resp::transaction::words_bytes;
use crate::store::Store;
use crate::waiting_rows::Tried;

/// How many bytes after a blocking command are read during the wait. If the client sends more, its end is noticed only
/// when its rows may be filled.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// How many keys one command may wait for: it takes its places in their queues in one turn.
const ROWS_MAX: usize = 10_000;

const TOO_MANY_ROWS: Error = Error::new("ERR a command waits for at most 10000 keys");
const NO_ROOM: Error =
    Error::new("ERR the tenant's clients wait for too many keys: wait for fewer, or with fewer clients");

/// Bytes that it takes to wait for a row, besides its key.
const ROW_BYTES: u64 = 512;

/// Bytes of memory that a command of these `args`, some of them replaced by `words`, takes while it waits for `rows`.
/// The key of a row is kept with the place in its queue, and for the queue itself. All words are kept with the request.
fn waited_bytes(rows: &[StoredKey], args: Args<'_>, words: &[(usize, Vec<u8>)]) -> u64 {
    let rows = rows.iter().map(|row| ROW_BYTES + 2 * row.len() as u64);
    let replaced = words.iter().map(|(_, word)| word.len() as u64);
    rows.chain(replaced).sum::<u64>() + words_bytes(args)
}

/// What has ended or interrupted a wait.
enum Event {
    Ended(Ending),
    /// The rows of the command may be filled.
    Woken,
}

/// The words of `args`, some of them replaced by `words`.
fn resolved(args: Args<'_>, words: &[(usize, Vec<u8>)]) -> Request {
    let word = |(place, word)| words.iter().find(|(other, _)| *other == place).map_or(word, |(_, word)| &word[..]);
    Request::new(0, 0, args.iter_from(0).enumerate().map(word))
}

impl<S: Store> Connection<S> {
    /// Waits for the answer to the command under way, and writes it. `input` begins behind that command.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn answer_later(&mut self, blocked: Blocked, input: &mut Input) -> io::Result<()> {
        let Blocked { mut later, until, timed_out, rows } = blocked;
        match rows {
            // That was done before the connection took its place: with a place it must not wait for its client.
            Some(_) => self.leave_databases().await,
            None => self.flush().await?,
        }
        pool::give(self.session.outbox.replies.reclaim());
        let outcome = loop {
            let event = self.until_answered(&mut later, until, rows.as_ref(), input).await?;
            let outbox = &mut self.session.outbox;
            outbox.replies.lend(pool::take());
            outbox.enter(Phase::Serving);
            // The wait does not count as anybody's time.
            outbox.begin_round();
            self.turn_began = outbox.lap;
            match (event, &rows) {
                (Event::Ended(Ending::Failed(error)), _) => break Err(error),
                (Event::Woken, Some(rows)) => {
                    if let Some(outcome) = self.try_again(rows).await {
                        break outcome;
                    }
                }
                (Event::Ended(Ending::TimedOut) | Event::Woken, _) => {
                    outbox.replies.answer_with(&timed_out);
                    break Ok(());
                }
            }
            pool::give(self.session.outbox.replies.reclaim());
            self.leave_databases().await;
        };
        if let Some(rows) = &rows {
            self.took(rows.command, rows.request.args(), outcome.is_err());
        }
        self.send_events().await;
        self.end_command(outcome);
        Ok(())
    }

    /// Runs a command whose rows may be filled; `None` if it waits on. During the try nobody else can end its wait.
    async fn try_again(&mut self, rows: &BlockedOnRows) -> Option<Outcome> {
        let ticket = self.session.outbox.client.take_ticket()?;
        self.session.is_again = true;
        self.remember(rows.command, rows.request.args());
        let outcome = self.try_on_rows(rows.command, rows.request.args()).await;
        self.session.is_again = false;
        let tried = match (&outcome, self.session.waits.take()) {
            (Ok(()), None) => return Some(outcome),
            (Err(_), _) => return Some(outcome),
            (Ok(()), Some(wait)) if rows.takes && wait.takes => Tried::Nothing,
            (Ok(()), Some(_)) => Tried::Other,
        };
        self.take_back_try();
        // The replies in front of it were sent, and the client does not get what this try has read.
        self.session.outbox.end_messages_among();
        self.session.outbox.client.give_ticket(ticket);
        rows.place.tried(tried);
        None
    }

    /// Runs `command` once more. Its reply begins where the reply of the command under way does.
    async fn try_on_rows(&mut self, command: &'static Command, args: Args<'_>) -> Outcome {
        if let Some(denied) = self.session.denied_now(command, args, Origin::Client).await {
            return Err(denied.as_error(command, args));
        }
        let charge = if self.is_limited() { Some(self.charge(command, args).await?) } else { None };
        self.begin_bill(charge.as_ref());
        self.enter_databases().await;
        let outcome = self.execute_on_rows(command, args).await;
        let outcome = self.session.outbox.judge(outcome);
        let reply_bytes = self.session.outbox.answer_bytes();
        self.end_bill(command, args, charge.as_ref(), reply_bytes);
        outcome
    }

    /// The command under way has found nothing: answers the commands before it, queues it for its rows, and tries it
    /// once more, because they may have been filled since. If it waits, its answer is taken back.
    pub(super) async fn wait_for_rows(&mut self, command: &'static Command, args: Args<'_>, wait: Wait) -> Outcome {
        let now = self.server.clock.now();
        let until = wait.timeout_ms.map(|ms| now.saturating_add(ms.saturating_mul(1_000_000)));
        self.take_back_try();
        // This comes first, because it lasts as long as the client does not read. Connections behind this one in a
        // queue must not wait for its client.
        self.flush().await.map_err(gone)?;
        self.enter_databases().await;
        self.session.outbox.lap = self.server.clock.now();
        if let Some(denied) = self.session.denied_now(command, args, Origin::Client).await {
            return Err(denied.as_error(command, args));
        }
        let databases = self.session.databases();
        let rows = rows_of(command, args, self.session.database(), databases);
        if rows.len() > ROWS_MAX {
            return Err(TOO_MANY_ROWS);
        }
        let account = self.session.account()?;
        let held = account.waited.try_hold(waited_bytes(&rows, args, &wait.resolved)).ok_or(NO_ROOM)?;
        let place = account.waiting_rows.wait_for(&rows, databases, command.writes());
        // From now on the command means what it meant when it came.
        let request = resolved(args, &wait.resolved);
        self.session.is_again = true;
        self.remember(command, request.args());
        let outcome = self.execute_on_rows(command, request.args()).await;
        self.session.is_again = false;
        outcome?;
        if self.session.waits.take().is_none() {
            return Ok(());
        }
        self.take_back_try();
        let outbox = &mut self.session.outbox;
        // The replies in front of it were sent, and the client does not get what this try has read.
        outbox.end_messages_among();
        let mut timed_out = Replies::default();
        timed_out.protocol = outbox.replies.protocol;
        timed_out.null_array();
        let timed_out = timed_out.to_vec();
        let later = outbox.client.block();
        let rows = BlockedOnRows { place, command, request, takes: wait.takes, _held: held };
        self.session.blocked = Some(Blocked { later, until, timed_out, rows: Some(rows) });
        Ok(())
    }

    /// Takes back the answer of a try that has found nothing.
    fn take_back_try(&mut self) {
        let outbox = &mut self.session.outbox;
        outbox.depend_on_nothing();
        let from = outbox.answer_from();
        outbox.replies.restart(from);
    }

    async fn until_answered(
        &mut self,
        later: &mut Later,
        until: Option<Nanos>,
        rows: Option<&BlockedOnRows>,
        input: &mut Input,
    ) -> io::Result<Event> {
        let (client, clock) = (Arc::clone(&self.session.outbox.client), Arc::clone(&self.server.clock));
        let mut timeout = pin!(async {
            match until {
                Some(at) => sleep_until(&clock, at).await,
                None => pending().await,
            }
        });
        let outbox = &mut self.session.outbox;
        outbox.enter(Phase::Blocked);
        let ended = poll_fn(|cx| {
            if let Poll::Ready(ending) = pin!(&mut *later).poll(cx) {
                return Poll::Ready(Ok(Some(Event::Ended(ending))));
            }
            if timeout.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            if rows.is_some_and(|rows| rows.place.poll_woken(cx).is_ready()) {
                // Nobody would get what a client that is gone takes from its rows.
                let is_gone = outbox.stream.is_ended();
                let woken = if is_gone { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Some(Event::Woken)) };
                return Poll::Ready(woken);
            }
            while input.bytes.len() - input.start < AHEAD_BYTES_MAX {
                match input.poll_fill(cx, &mut outbox.stream) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    Poll::Ready(Ok(received)) => outbox.count(|stats| stats.bytes_in.add(received as u64)),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
            outbox.poll_push(cx);
            if outbox.closing { Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) } else { Poll::Pending }
        })
        .await;
        match ended {
            Ok(Some(event)) => Ok(event),
            Ok(None) if client.take_ticket().is_some() => Ok(Event::Ended(Ending::TimedOut)),
            // Somebody has taken the ticket, and has told others that this will end the wait.
            Ok(None) => Ok(Event::Ended(later.await)),
            Err(error) => {
                drop(client.take_ticket());
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_all_words_of_a_command_that_waits_count() {
        let bytes_of = |words: &[&[u8]], replaced: &[(usize, Vec<u8>)]| {
            let request = Request::new(0, 0, words.iter().copied());
            waited_bytes(&[StoredKey::new(0, b"s")], request.args(), replaced)
        };
        let waits = |group: &[u8], options: usize| {
            let front = [&b"XREADGROUP"[..], b"GROUP", group, b"c", b"BLOCK", b"0"];
            let options = std::iter::repeat_n(&b"NOACK"[..], options);
            let words: Vec<&[u8]> = front.into_iter().chain(options).chain([&b"STREAMS"[..], b"s", b">"]).collect();
            bytes_of(&words, &[])
        };
        let short = waits(b"g", 0);
        assert!(short < 1 << 10, "{short}");
        assert_eq!(waits(&[b'g'; 1001], 0), short + 1000);
        assert!(waits(b"g", 1000) > short + 1000 * 12, "each word is kept with its place");
        let read = [&b"XREAD"[..], b"BLOCK", b"0", b"STREAMS", b"s", b"$"];
        assert_eq!(bytes_of(&read, &[(5, b"17-0".to_vec())]), bytes_of(&read, &[]) + 4);
    }
}
