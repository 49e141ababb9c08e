//! One connection: reads requests, has them executed, and answers them in their order.
//!
//! All complete requests in the read buffer are served before anything is written back:
//!
//! 1. Reads are answered on the spot, unless they must wait for the disk.
//! 2. Plain writes (`SET`, `MSET`) are gathered in one batch, which goes to the store before a different command, or at
//!    the end of the buffer: one log record, one turn at the store's lock.
//! 3. Consecutive writes that read first are [run as one](group): one log record, too.
//! 4. At the end the thread's other connections get a turn, so that one log write serves them all, and a few plain
//!    writes go to the store [together with theirs](crate::write_group). Then all commits are awaited, and only then
//!    are the replies written, in one piece. Nothing is acknowledged before its commit. A reply whose commit failed is
//!    replaced by the error ([`Outbox`]).
//!
//! A command above its tenant's limits waits here for its capacity units, after the replies of the commands before it
//! were sent. Meanwhile the socket is not read, and nobody else waits.

mod as_one;
mod blocked;
mod charging;
mod databases;
mod group;
mod key_events;
mod monitor;
mod moving;
mod paused;
mod rows;
mod script;
mod scripted;
mod secured;
mod transaction;

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use tokio::task::yield_now;
use weir_command::bill::Charge;
use weir_command::error::{CROSS_SLOT, Error, Outcome};
use weir_command::reply::FLUSH_BYTES;
use weir_command::table::Id;
use weir_command::{Args, Command, table};
use weir_io::Nanos;
use weir_model::Batch;
use weir_node::waits::{self, Followed};

use self::charging::key_of;
use self::moving::Lately;
pub(crate) use self::moving::Moving;
pub(crate) use self::secured::begin_secured;
use super::ahead;
use super::alone::Alone;
use super::client::{Client, Phase};
use super::commands::{self, check_options};
use super::frame::{Progress, ProtocolError};
use super::input::Input;
use super::outbox::{Gathered, Outbox, ReplyMode, YIELD};
use super::parse::parse;
use super::session::Session;
use super::slowlog;
use crate::notices::What;
use crate::pool;
use crate::server::Server;
use crate::serving_thread::ServingThread;
use crate::stats;
use crate::store::Store;
use crate::stream::Stream;

/// The state of one connection.
pub(super) struct Connection<S: Store> {
    server: Arc<Server<S>>,
    session: Session<S>,
    gathered: Gathered,
    /// When other connections were last served.
    turn_began: u64,
    /// Set once the connection has an owner, or is known to have none.
    has_begun: bool,
    /// The thread that serves the connection.
    thread: ServingThread,
    lately: Lately,
    /// The next request has been received, and will be served on the thread where the connection belongs.
    is_put_off: bool,
    /// Set while nobody else runs commands of the tenant.
    alone: Option<Arc<Alone>>,
    /// What the commands of the transaction under way, which have entered the node's queues as one, cost together as
    /// far as is known, in thousandths of request units.
    entered: Option<u64>,
}

/// How many bytes of an unfinished request are not booked on the tenant.
const UNFINISHED_FREE_BYTES: usize = 64 << 10;

/// How many consecutive reads are worth a look ahead.
const PREFETCHED_MIN: usize = 4;

/// How long commands that come together are served before other connections are. This is a time, because every command
/// is timed anyway; the turns within one command are counted.
const TURN_NANOS: u64 = 500_000;
/// After this many requests the clock is read even if no command was run.
const UNTIMED_MAX: usize = 128;

/// Serves `stream` on `thread` until one side closes it, or until the connection moves to another thread. `vouched` are
/// the names in the client's certificate.
pub(crate) fn begin<S: Store>(
    stream: Stream,
    vouched: Vec<String>,
    server: Arc<Server<S>>,
    client: Arc<Client>,
    thread: ServingThread,
) -> impl Future<Output = Option<Box<Moving<S>>>> + Send {
    let outbox = Outbox::new(stream, Arc::clone(&server), client, thread.index);
    let mark = outbox.replies.mark();
    let connection = Connection {
        server,
        session: Session::new(outbox, vouched),
        gathered: Gathered { batch: Batch::new(), from: mark, to: mark, replies: 0, is_open: false },
        turn_began: 0,
        has_begun: false,
        thread,
        lately: Lately::default(),
        is_put_off: false,
        alone: None,
        entered: None,
    };
    Followed::new(serve(Box::new(connection), Input::new()))
}

async fn serve<S: Store>(mut connection: Box<Connection<S>>, mut input: Input) -> Option<Box<Moving<S>>> {
    let id = connection.session.outbox.client.id;
    match AssertUnwindSafe(connection.run(&mut input)).catch_unwind().await {
        Ok(Ok(Ending::Moves { socket, to })) => return Some(Box::new(Moving::new(connection, input, socket, to))),
        Ok(Ok(Ending::Closed)) => {
            let clock = Arc::clone(&connection.server.clock);
            let outbox = &mut connection.session.outbox;
            let by_client = outbox.closing && !outbox.is_cut && !outbox.client.is_killed();
            Box::pin(outbox.stream.close(by_client, &clock)).await;
        }
        Ok(Err(error)) => tracing::debug!(client = id, %error, "connection ended"),
        // A bug of ours ends this connection, and nobody else's (S16).
        Err(_) => tracing::error!(client = id, "a request panicked: its connection is closed"),
    }
    None
}

/// Why a connection is no longer served on this thread.
enum Ending {
    Closed,
    /// It moves to the thread with this number, with a socket that is registered with no event loop.
    Moves {
        socket: OwnedFd,
        to: usize,
    },
}

impl<S: Store> Connection<S> {
    async fn run(&mut self, input: &mut Input) -> io::Result<Ending> {
        if !self.has_begun {
            self.has_begun = true;
            self.session.forget_who();
        }
        let client = Arc::clone(&self.session.outbox.client);
        while !self.session.outbox.closing && !client.is_killed() && !self.server.is_draining() {
            self.session.outbox.enter(if input.is_empty() { Phase::Idle } else { Phase::Receiving });
            let is_long = self.lately.belongs_to_long(input.wanted_bytes(), self.thread);
            let home = self.server.home(client.id, is_long);
            if home != self.thread.index
                // If there are no more file descriptors, the connection is served where it is.
                && let Ok(socket) = self.session.outbox.stream.socket().as_fd().try_clone_to_owned()
            {
                return Ok(Ending::Moves { socket, to: home });
            }
            if !self.is_put_off {
                self.make_room_to_read(input).await;
                let received = self.receive(input).await?;
                if received == 0 {
                    break;
                }
                self.session.outbox.count(|stats| stats.bytes_in.add(received as u64));
            }
            self.session.outbox.enter(Phase::Serving);
            self.session.outbox.replies.lend(pool::take());
            self.serve_received(input).await?;
            self.flush().await?;
            pool::give(self.session.outbox.replies.reclaim());
            // This is not done before the first round: until then the connection counts as that of the tenant whose
            // door is open, and may be about to log in to another.
            self.lately.is_noisy = self.session.account().is_ok_and(|account| account.is_noisy());
        }
        Ok(Ending::Closed)
    }

    /// Waits for more bytes, and writes messages meanwhile. Returns how many bytes came; 0 means the end of the stream.
    async fn receive(&mut self, input: &mut Input) -> io::Result<usize> {
        let outbox = &mut self.session.outbox;
        poll_fn(|cx| {
            let filled = input.poll_fill(cx, &mut outbox.stream);
            if filled.is_pending() {
                outbox.poll_push(cx);
                if outbox.closing {
                    // A message could not be written.
                    return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                }
            }
            filled
        })
        .await
    }

    /// Waits until the tenant may hold what the request at the front of `input` needs, as far as that is known (S12).
    async fn make_room_to_read(&mut self, input: &Input) {
        let Some(hold) = &mut self.session.unfinished else { return };
        let wanted = input.memory_bytes();
        if wanted > UNFINISHED_FREE_BYTES && !hold.try_grow_to(wanted as u64) {
            // The server makes the client wait here, not the other way round.
            self.session.outbox.enter(Phase::Serving);
            hold.grow_to(wanted as u64).await;
            self.session.outbox.enter(Phase::Receiving);
        }
    }

    /// Serves every complete request in `input`.
    async fn serve_received(&mut self, input: &mut Input) -> io::Result<()> {
        self.session.outbox.begin_round();
        self.turn_began = self.session.outbox.lap;
        self.session.outbox.client.sent(input.bytes.len() - input.start);
        waits::clear();
        let (mut prefetched, mut looked_at) = (0, 0);
        while !self.session.outbox.closing {
            looked_at += 1;
            if looked_at % UNTIMED_MAX == 0 {
                // Requests that ask for nothing, and refused ones, are not timed.
                self.session.outbox.lap = self.server.clock.now();
            }
            self.end_turn_if_long().await;
            if prefetched == 0 {
                prefetched = self.prefetch(&input.bytes[input.start..]);
            }
            prefetched -= 1;
            match parse(&input.bytes[input.start..], &self.session.limits, &mut input.state) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Nothing(len)) => input.start += len,
                Ok(Progress::Request(len)) => {
                    let args = input.state.args(&input.bytes[input.start..]);
                    let command = table::find(args.at(0));
                    if self.put_off(command, args) {
                        break;
                    }
                    self.take_mail().await?;
                    self.enter_databases().await;
                    let served = self.run_group(command, input, len).await;
                    if served > 0 {
                        input.start += served;
                        self.take_own_changes().await?;
                        self.flush_if_long().await?;
                        continue;
                    }
                    let secret = self.execute(command, input.state.args(&input.bytes[input.start..])).await;
                    if secret {
                        input.wipe(len);
                    }
                    input.start += len;
                    if let Some(blocked) = self.session.blocked.take() {
                        // The wait may last for ever. What it needs of the request is kept with it.
                        self.drop_served(input);
                        Box::pin(self.answer_later(blocked, input)).await?;
                    }
                    self.take_own_changes().await?;
                    self.flush_if_long().await?;
                }
                Err(error) => {
                    self.submit().await;
                    if error == ProtocolError::Tls {
                        self.session.notice_from(What::TlsOnPlain);
                    }
                    let outbox = &mut self.session.outbox;
                    // A client that wants no answer to its next request is not told either that this is no request.
                    if let Some(reply) = error.reply().filter(|_| outbox.reply_mode == ReplyMode::On) {
                        outbox.replies.raw(&reply);
                    }
                    outbox.closing = true;
                }
            }
        }
        self.drop_served(input);
        self.session.outbox.client.sent(0);
        Ok(())
    }

    /// Drops the requests in `input` that were served. What they held, above all the pass, goes to the connections that
    /// wait.
    fn drop_served(&mut self, input: &mut Input) {
        if input.start > 0
            && let Some(hold) = &mut self.session.unfinished
        {
            hold.shrink_to(0);
        }
        input.consume();
    }

    /// Lets other connections be served if the commands since their last turn have taken long. How many commands come
    /// together, and what each of them costs, are both the client's choice (S14).
    async fn end_turn_if_long(&mut self) {
        if self.session.outbox.lap.saturating_sub(self.turn_began) >= TURN_NANOS {
            yield_now().await;
            self.turn_began = self.server.clock.now();
            self.session.outbox.lap = self.turn_began;
        }
    }

    /// Looks ahead at the requests in `bytes`. Returns for how many of them no further look is needed.
    fn prefetch(&self, bytes: &[u8]) -> usize {
        let (keys, members) = (ahead::keys_to_get(bytes), ahead::members_to_read(bytes));
        if let Ok(store) = self.session.store() {
            if keys.len() >= PREFETCHED_MIN {
                store.prefetch(self.session.number(), &keys);
            }
            if members.len() >= PREFETCHED_MIN {
                store.prefetch_members(self.session.number(), &members);
            }
        }
        keys.len().max(members.len()).max(1)
    }

    /// Writes replies, if there are many.
    async fn flush_if_long(&mut self) -> io::Result<()> {
        if self.session.outbox.replies.len() >= FLUSH_BYTES {
            self.flush().await?;
            self.session.outbox.lap = self.server.clock.now();
        }
        Ok(())
    }

    /// Awaits every commit and writes every reply.
    async fn flush(&mut self) -> io::Result<()> {
        let has_yielded = self.submit_in_group().await;
        self.leave_databases().await;
        if !has_yielded && self.session.outbox.has_commits() {
            self.session.outbox.yield_to_others().await;
        }
        self.session.outbox.flush().await
    }

    /// Runs one command, if the name is known, and writes its reply, even if that is an error. Returns whether its
    /// arguments may hold a secret.
    async fn execute(&mut self, command: Option<&'static Command>, args: Args<'_>) -> bool {
        if let Some(command) = command
            && self.session.pause().is_set()
        {
            Box::pin(self.wait_out_pause(command, args)).await;
        }
        let is_queued = command.is_some_and(|command| self.queues(command));
        if let Some(command) = command {
            self.session.outbox.client.said(stats::told_as(command, args));
        }
        let paid = self.prepare(command, args).await;
        // The command may have waited.
        self.enter_databases().await;
        let outbox = &mut self.session.outbox;
        if outbox.reply_mode == ReplyMode::SkipNext {
            outbox.reply_mode = ReplyMode::SkipThis;
        }
        outbox.begin_answer();
        let outcome = match paid {
            Err(error) => {
                if let Some(command) = command {
                    outbox.count(|stats| stats.rejected(command, args));
                }
                let error = self.refused(command, error);
                self.end_remembering(command).await;
                Err(error)
            }
            Ok((command, _)) if is_queued => self.queue(command, args),
            Ok((command, charge)) => {
                outbox.count(|stats| stats.called(command, args));
                if outbox.longest.1.is_empty() {
                    outbox.longest.1 = command.name;
                }
                self.begin_bill(charge.as_ref());
                self.remember(command, args);
                let outcome = if command.works_on_rows(args) {
                    let outcome = self.execute_on_rows(command, args).await;
                    match self.session.waits.take().filter(|_| outcome.is_ok()) {
                        Some(wait) => Box::pin(self.wait_for_rows(command, args, wait)).await,
                        None => outcome,
                    }
                } else {
                    if !command.any_order {
                        self.submit().await;
                    }
                    match command.id {
                        Id::Exec => Box::pin(self.exec()).await,
                        Id::SwapDb => Box::pin(self.swap_databases(args)).await,
                        _ if script::is_script(command) => Box::pin(self.eval(command, args)).await,
                        _ => Box::pin(commands::run(command, &mut self.session, args)).await,
                    }
                };
                let is_blocked = outcome.is_ok() && self.session.blocked.is_some();
                let outcome = if is_blocked { Ok(()) } else { self.session.outbox.judge(outcome) };
                let reply_bytes = self.session.outbox.answer_bytes();
                self.end_bill(command, args, charge.as_ref(), reply_bytes);
                if self.session.tells_cost && outcome.is_ok() && !is_blocked {
                    self.tell_cost();
                }
                // A command that waits for rows is timed when its wait has ended.
                if self.session.blocked.as_ref().is_none_or(|blocked| blocked.rows.is_none()) {
                    self.took(command, args, outcome.is_err());
                }
                if self.is_monitored() {
                    Box::pin(self.tell_monitors(command, args)).await;
                }
                self.send_events().await;
                self.end_remembering(Some(command)).await;
                outcome
            }
        };
        let queued = self.session.transaction.as_ref().map(|queue| queue.commands.len());
        self.session.outbox.client.queues(queued);
        if self.session.blocked.is_none() {
            self.end_command(outcome);
        }
        command.is_some_and(|command| command.is_secret(args))
    }

    /// Whether `command` must wait for `EXEC`.
    #[inline]
    fn queues(&self, command: &Command) -> bool {
        self.session.transaction.is_some() && !command.in_multi
    }

    /// Queues a command for `EXEC`.
    fn queue(&mut self, command: &'static Command, args: Args<'_>) -> Outcome {
        let Some(queue) = &mut self.session.transaction else { return Ok(()) };
        // The user, and the messages that the client gets, must not change in the middle of what was queued for
        // somebody.
        let queued = match command.id {
            Id::Auth | Id::Hello => Err(Error::new("ERR AUTH and HELLO are not allowed inside MULTI")),
            Id::Client if args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"REPLY")) => {
                Err(Error::new("ERR CLIENT REPLY is not allowed inside MULTI"))
            }
            _ if command.group == "pubsub" && command.in_subscribed => {
                Err(Error::new("ERR subscribing is not allowed inside MULTI"))
            }
            _ if command.flags.contains(&"no_multi") => Err(Error::new("ERR Command not allowed inside a transaction")),
            _ => command.check_subcommand(args).and_then(|()| queue.add(command, args)),
        };
        queue.is_spoiled |= queued.is_err();
        queued?;
        self.session.outbox.replies.simple("QUEUED");
        Ok(())
    }

    /// Ends the reply of the command under way.
    fn end_command(&mut self, outcome: Outcome) {
        let outbox = &mut self.session.outbox;
        outbox.end_answer(&outcome, &mut self.gathered);
        outbox.let_go();
        outbox.unanswered += 1;
        self.session.limit_strangers();
    }

    /// Checks that the command exists and may be run, and pays for it.
    async fn prepare(
        &mut self,
        command: Option<&'static Command>,
        args: Args<'_>,
    ) -> Outcome<(&'static Command, Option<Charge>)> {
        let command = command.ok_or_else(|| Error::unknown_command(args.at(0), args.iter_from(1)))?;
        if !command.takes(args.len()) {
            return Err(Error::arity(command.name));
        }
        self.session.may(command)?;
        if !self.session.has_full_rights() {
            Box::pin(self.session.check_rights(command, args)).await?;
        }
        self.session.may_in_subscribed_state(command, args)?;
        self.session.may_in_monitor(command, args)?;
        check_options(command, args.len())?;
        if self.session.store().is_ok_and(Store::is_spread) && !command.stays_in_one_slot(args, YIELD).await {
            return Err(CROSS_SLOT);
        }
        let is_full = self.session.store().ok().and_then(Store::disk_limit_reached).is_some();
        if is_full && command.needs_room(args) {
            self.wait_for_disk().await?;
        }
        if self.queues(command) {
            return Ok((command, None));
        }
        let charge = if self.is_limited() { Some(self.charge(command, args).await?) } else { None };
        Ok((command, charge))
    }

    /// Books the time that a command took, and logs it if that was long.
    fn took(&mut self, command: &Command, args: Args<'_>, failed: bool) {
        let now = self.server.clock.now();
        self.took_until(command, args, failed, now);
    }

    /// The same for a command that ended at `now`.
    fn took_until(&mut self, command: &Command, args: Args<'_>, failed: bool, now: Nanos) {
        let outbox = &mut self.session.outbox;
        let nanos = now.saturating_sub(outbox.lap);
        outbox.lap = now;
        outbox.count(|stats| stats.took(command, args, nanos, failed));
        outbox.took(nanos, command.name);
        let micros = nanos / 1000;
        if command.id == Id::Exec {
            // The commands that it ran were booked one by one.
            return;
        }
        if let Ok(account) = self.session.account()
            && account.latency_monitor.wants(nanos / 1_000_000)
        {
            let event = if command.flags.contains(&"fast") { "fast-command" } else { "command" };
            account.latency_monitor.add(event, self.server.clock.unix_ms() / 1000, nanos / 1_000_000);
        }
        if self.session.slowlog().wants(micros) {
            let client = &self.session.outbox.client;
            let entry = slowlog::Entry {
                id: 0,
                second: self.server.clock.unix_ms() / 1000,
                micros,
                args: Vec::new(),
                peer: client.peer.to_string(),
                client_name: client.names.lock().name.clone(),
            };
            self.session.slowlog().add(entry, args, command.is_secret(args));
        }
    }
}

impl<S: Store> Drop for Connection<S> {
    fn drop(&mut self) {
        self.session.outbox.book_cut();
        self.session.leave_databases();
        self.server.clients.leave(&self.session.outbox.client);
    }
}
