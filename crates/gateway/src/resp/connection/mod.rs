//! One connection: its socket, its replies, and its writes that are not committed yet.
//!
//! All complete requests in the read buffer are served before anything is written back:
//!
//! 1. Reads are answered on the spot, unless they must wait for the disk.
//! 2. Plain writes (`SET`, `MSET`) gather in one batch, which goes to the store when something else is asked for, or
//!    at the end of the buffer: one log record, one turn at the store's lock.
//! 3. At the end the thread's other connections get a turn, so that one log write serves them all. Then all commits are
//!    awaited, and only then are the replies written, in one piece. Nothing is acknowledged
//!    before its commit. A reply whose commit failed is replaced by the error ([`answer`]).
//!
//! A command above its tenant's limits waits here for its capacity units, behind the replies of those before it: the
//! socket is not read meanwhile, and nobody else waits.
//!
//! While replies wait for the client nothing more is read from it, so the memory of a connection is bounded by one
//! request, [`FLUSH_BYTES`] of replies and one value.

mod answer;
mod charging;
mod data;
mod moving;
mod output;
mod session;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::net::TcpStream;
use tokio::task::yield_now;
use weir_model::Batch;
use weir_node::waits::{self, Followed};

use self::answer::{Answer, Gathered, Pending};
use self::charging::key_of;
use self::moving::Lately;
pub(crate) use self::moving::{Moving, Place};
pub(super) use self::output::FLUSH_BYTES;
use super::ahead;
use super::bill::{Bill, Charge};
use super::client::{Client, Phase};
use super::commands::check_options;
use super::commands::transactions::{NOT_QUEUED, ends_or_concerns_it};
use super::error::{CROSS_SLOT, Error, Outcome};
use super::frame::{Args, Limits, Progress};
use super::input::Input;
use super::parse::parse;
use super::reply::Replies;
use super::slowlog;
use super::table::{self, Command};
use crate::auth::Session;
use crate::auth::book::Hold;
use crate::pool;
use crate::server::Server;
use crate::stats::ThreadStats;
use crate::store::Store;

/// See the module.
pub(super) struct Connection<S: Store> {
    pub(super) server: Arc<Server<S>>,
    pub(super) client: Arc<Client>,
    pub(super) replies: Replies,
    /// Whether the client wants to be answered.
    pub(super) reply_mode: ReplyMode,
    /// When the last command ended, or waiting for something else did: nanoseconds of the clock.
    lap: u64,
    /// When others were last served.
    turn_began: u64,
    /// When the bytes that are being served were read.
    received: u64,
    /// Commands since then whose replies have not been written.
    unanswered: u64,
    /// Which of them took longest, and how long, in nanoseconds.
    longest: (u64, &'static str),
    /// Whose connection it is; `None` = nobody knows yet.
    session: Option<Session<S>>,
    /// What one request may ask for: less, as long as nobody knows who asks.
    limits: Limits,
    /// Bytes replied to a stranger (S2).
    told_strangers: usize,
    /// It is known who speaks, or that nobody knows.
    has_begun: bool,
    /// `MULTI` was said, and not yet `EXEC` or `DISCARD`.
    pub(super) in_transaction: bool,
    /// Close once the replies are written.
    pub(super) closing: bool,
    /// The thread that serves it.
    place: Place,
    lately: Lately,
    /// The next request has been received, and is to be served where the connection belongs.
    is_put_off: bool,
    stream: TcpStream,
    gathered: Gathered,
    commits: Vec<Pending<S::Commit>>,
    answer: Answer,
    /// A write to the client has failed in the middle of a reply: nothing more may be written.
    is_cut: bool,
    /// Of its tenant's book of long values, while there is a session: those in hand, and replies that the client does not take at once.
    long_values: Option<Hold>,
    /// The same of requests that are not complete.
    unfinished: Option<Hold>,
    /// What the command that runs has cost so far; `None` while nothing is limited.
    bill: Option<Bill>,
}

/// Bytes of an unfinished request that are not booked on its tenant.
const UNFINISHED_FREE_BYTES: usize = 64 << 10;

/// Reads that follow one another and are worth a look ahead.
const FORESEEN_MIN: usize = 4;

/// Commands that come in one go are served for so long before others are. Timed, as every command is timed anyway; what one command does is counted.
const TURN_NANOS: u64 = 500_000;
/// Requests after which the clock is looked at where no command was run.
const UNTIMED_MAX: usize = 128;

/// What `CLIENT REPLY` chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    Off,
    /// The next command is not answered.
    SkipNext,
    /// The command under way is not answered.
    SkipThis,
}

/// Serves `stream` at `place` until one side closes, or it moves to another thread.
pub(crate) fn begin<S: Store>(
    stream: TcpStream,
    server: Arc<Server<S>>,
    client: Arc<Client>,
    place: Place,
) -> impl Future<Output = Option<Box<Moving<S>>>> + Send {
    let replies = Replies::default();
    let mark = replies.mark();
    let limits = server.settings.limits;
    let connection = Connection {
        server,
        client,
        replies,
        reply_mode: ReplyMode::On,
        lap: 0,
        turn_began: 0,
        received: 0,
        unanswered: 0,
        longest: (0, ""),
        session: None,
        limits,
        told_strangers: 0,
        has_begun: false,
        in_transaction: false,
        closing: false,
        place,
        lately: Lately::default(),
        is_put_off: false,
        stream,
        gathered: Gathered { batch: Batch::new(), from: mark, to: mark, replies: 0, is_open: false },
        commits: Vec::new(),
        answer: Answer { from: mark, has_left: false },
        is_cut: false,
        long_values: None,
        unfinished: None,
        bill: None,
    };
    Followed::new(serve(Box::new(connection), Input::new()))
}

async fn serve<S: Store>(mut connection: Box<Connection<S>>, mut input: Input) -> Option<Box<Moving<S>>> {
    let id = connection.client.id;
    match AssertUnwindSafe(connection.run(&mut input)).catch_unwind().await {
        Ok(Ok(Ending::Moves { socket, to })) => return Some(Box::new(Moving::new(connection, input, socket, to))),
        Ok(Ok(Ending::Closed)) => {}
        Ok(Err(error)) => tracing::debug!(client = id, %error, "connection ended"),
        // A mistake of ours: this connection ends, and nobody else's does (S16).
        Err(_) => tracing::error!(client = id, "a request ended in a panic, its connection is closed"),
    }
    None
}

/// Why a connection is no longer served where it was.
enum Ending {
    Closed,
    /// To the thread with this number, with a socket that no event loop has.
    Moves {
        socket: OwnedFd,
        to: usize,
    },
}

impl<S: Store> Connection<S> {
    async fn run(&mut self, input: &mut Input) -> io::Result<Ending> {
        if !self.has_begun {
            self.has_begun = true;
            if let Err(refusal) = self.forget_who() {
                self.replies.error(Error::from(refusal).text());
                self.flush().await?;
                return Ok(Ending::Closed);
            }
        }
        while !self.closing && !self.client.is_killed() && !self.server.is_draining() {
            self.enter(if input.is_empty() { Phase::Idle } else { Phase::Receiving });
            let is_long = self.lately.belongs_to_long(input.wanted_bytes(), self.place);
            let home = self.server.home(self.client.id, is_long);
            if home != self.place.index
                // Where there are no more descriptors it is served where it is.
                && let Ok(socket) = self.stream.as_fd().try_clone_to_owned()
            {
                return Ok(Ending::Moves { socket, to: home });
            }
            if !self.is_put_off {
                self.make_room_to_read(input).await;
                let received = input.fill(&mut self.stream).await?;
                if received == 0 {
                    break;
                }
                self.count(|stats| stats.bytes_in.add(received as u64));
            }
            self.enter(Phase::Serving);
            self.replies.lend(pool::take());
            self.serve_received(input).await?;
            self.flush().await?;
            pool::give(self.replies.reclaim());
            // Not before its first round: until then it is taken for whoever has the open door, and may be about to say that it is somebody else's.
            self.lately.is_heavy = self.session.as_ref().is_some_and(|session| session.account().is_heavy());
        }
        Ok(Ending::Closed)
    }

    /// Waits until its tenant may hold what the request at the front of `input` needs, as far as that is known (S12).
    async fn make_room_to_read(&mut self, input: &Input) {
        let Some(hold) = &mut self.unfinished else { return };
        let wanted = input.wanted_bytes();
        if wanted > UNFINISHED_FREE_BYTES && !hold.try_grow_to(wanted as u64) {
            // It is our turn to move, not the client's.
            self.client.enter(Phase::Serving, self.server.second());
            hold.grow_to(wanted as u64).await;
            self.enter(Phase::Receiving);
        }
    }

    /// Serves every complete request in `input`.
    async fn serve_received(&mut self, input: &mut Input) -> io::Result<()> {
        self.lap = self.server.clock.now();
        (self.received, self.turn_began) = (self.lap, self.lap);
        self.longest = (0, "");
        waits::clear();
        let (mut foreseen, mut looked_at) = (0, 0);
        while !self.closing {
            looked_at += 1;
            if looked_at % UNTIMED_MAX == 0 {
                // What asks for nothing, and what is refused, is not timed.
                self.lap = self.server.clock.now();
            }
            self.end_turn_if_long().await;
            if foreseen == 0 {
                foreseen = self.foresee(&input.bytes[input.start..]);
            }
            foreseen -= 1;
            match parse(&input.bytes[input.start..], &self.limits, &mut input.state) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Nothing(len)) => input.start += len,
                Ok(Progress::Request(len)) => {
                    if self.put_off(input.state.args(&input.bytes[input.start..])) {
                        break;
                    }
                    let secret = self.execute(input.state.args(&input.bytes[input.start..])).await;
                    if secret {
                        input.wipe(len);
                    }
                    input.start += len;
                    if self.replies.len() >= FLUSH_BYTES {
                        self.flush().await?;
                        self.lap = self.server.clock.now();
                    }
                }
                Err(error) => {
                    self.submit().await;
                    // Who wants no answer to what comes next is not told either that it is no request.
                    if let Some(reply) = error.reply().filter(|_| self.reply_mode == ReplyMode::On) {
                        self.replies.raw(&reply);
                    }
                    self.closing = true;
                }
            }
        }
        // What its requests held, the pass above all, goes to those who wait.
        if input.start > 0
            && let Some(hold) = &mut self.unfinished
        {
            hold.shrink_to(0);
        }
        input.consume();
        Ok(())
    }

    /// Lets others be served, if the commands since they were have taken long: how many come in one go, and what each costs, are both the client's choice (S14).
    async fn end_turn_if_long(&mut self) {
        if self.lap.saturating_sub(self.turn_began) >= TURN_NANOS {
            yield_now().await;
            self.lap = self.server.clock.now();
            self.turn_began = self.lap;
        }
    }

    /// Looks ahead at the requests in `bytes`. Gives for how many of them nobody needs to look again.
    fn foresee(&self, bytes: &[u8]) -> usize {
        let keys = ahead::keys_to_get(bytes);
        if keys.len() >= FORESEEN_MIN
            && let Ok(store) = self.store()
        {
            store.foresee(&keys);
        }
        keys.len().max(1)
    }

    /// Runs one command and writes its reply, an error included; gives whether its arguments may hold a secret.
    async fn execute(&mut self, args: Args<'_>) -> bool {
        let command = table::find(args.at(0));
        if let Some(command) = command
            && self.pause().is_set()
        {
            self.wait_out_pause(command).await;
        }
        let paid = self.prepare(command, args).await;
        if self.reply_mode == ReplyMode::SkipNext {
            self.reply_mode = ReplyMode::SkipThis;
        }
        self.begin_answer();
        let outcome = match paid {
            Err(error) => {
                if let Some(command) = command {
                    self.count(|stats| stats.rejected(command.index));
                }
                Err(error)
            }
            Ok((command, charge)) => {
                self.count(|stats| stats.called(command.index));
                self.bill = charge.map(|_| Bill::default());
                if self.longest.1.is_empty() {
                    self.longest.1 = command.name;
                }
                let outcome = table::dispatch(command.id, self, args).await;
                let outcome = self.judge(outcome);
                if let (Some(charge), Some(bill)) = (charge, self.bill.take()) {
                    self.settle(charge, bill, key_of(command, args));
                }
                self.took(command, args, outcome.is_err());
                outcome
            }
        };
        self.end_answer(&outcome);
        self.let_go();
        self.unanswered += 1;
        if self.session.is_none() {
            self.limit_strangers();
        }
        command.is_some_and(|command| command.is_secret(args))
    }

    /// Whether there is such a command, it may be run, and it is paid for.
    async fn prepare(
        &mut self,
        command: Option<&'static Command>,
        args: Args<'_>,
    ) -> Outcome<(&'static Command, Option<Charge>)> {
        let command = command.ok_or_else(|| Error::unknown_command(args.at(0), args.iter_from(1)))?;
        if !command.takes(args.len()) {
            return Err(Error::arity(command.name));
        }
        self.may(command)?;
        if self.in_transaction && !ends_or_concerns_it(command.id) {
            return Err(NOT_QUEUED);
        }
        check_options(command, args.len())?;
        if self.store().is_ok_and(Store::is_spread) && !command.stays_in_one_slot(args).await {
            return Err(CROSS_SLOT);
        }
        if self.store().ok().and_then(Store::disk_limit_reached).is_some() && command.flags.contains(&"denyoom") {
            self.wait_for_disk().await?;
        }
        let charge = if self.is_limited() { Some(self.charge(command, args).await?) } else { None };
        Ok((command, charge))
    }

    /// Books the time that a command took, and remembers it if that was long.
    fn took(&mut self, command: &Command, args: Args<'_>, failed: bool) {
        let now = self.server.clock.now();
        let nanos = now.saturating_sub(self.lap);
        self.lap = now;
        self.count(|stats| stats.took(command.index, nanos, failed));
        self.longest = self.longest.max((nanos, command.name));
        let micros = nanos / 1000;
        if self.slowlog().wants(micros) {
            let entry = slowlog::Entry {
                id: 0,
                second: self.server.clock.unix_ms() / 1000,
                micros,
                args: Vec::new(),
                peer: self.client.peer.to_string(),
                client_name: self.client.names.lock().name.clone(),
            };
            self.slowlog().add(entry, args, command.is_secret(args));
        }
    }

    /// Counts, for the node and for the tenant: in the counters of this connection's thread.
    #[inline]
    fn count(&self, count: impl Fn(&ThreadStats)) {
        count(self.server.stats.thread(self.place.index));
        if let Some(session) = &self.session {
            count(session.account().stats.thread(self.place.index));
        }
    }

    fn enter(&self, phase: Phase) {
        self.client.enter(phase, self.server.second());
    }
}

impl<S: Store> Drop for Connection<S> {
    fn drop(&mut self) {
        self.server.clients.leave(self.client.id);
    }
}
