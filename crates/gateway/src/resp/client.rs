//! The connected clients: a record for each connection, shared with the sweeper and with `CLIENT LIST`.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use weir_command::reply::Protocol;
use weir_io::Nanos;

use self::tenants::ByTenant;
use crate::auth::users::User;
use crate::mailbox::{Recipient, Speaks};
use crate::pubsub::Counts;
use crate::resp::ticket::{Later, Ticket, ticket};
use crate::swaps::Usage;
use crate::tenant::account::Account;
use crate::tenant::tenancy::Standing;

mod line;
mod tenants;

/// What a connection is doing, for the sweeper. Each phase has its own time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Between two requests.
    Idle = 0,
    /// Part of a request has arrived (S12).
    Receiving = 1,
    /// A request is being served. It may wait for its tenant's tokens, so there is no limit.
    Serving = 2,
    /// Replies wait for the client to read them (S11).
    Replying = 3,
    /// A command will be answered later. There is no limit either.
    Blocked = 4,
    /// A command waits until `CLIENT PAUSE` is over. It will be served, and the connection is not cut for it.
    Paused = 5,
}

impl Phase {
    fn of(byte: u8) -> Self {
        match byte {
            0 => Phase::Idle,
            1 => Phase::Receiving,
            2 => Phase::Serving,
            3 => Phase::Replying,
            4 => Phase::Blocked,
            _ => Phase::Paused,
        }
    }
}

/// What a client tells about itself; empty if it tells nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) name: Vec<u8>,
    pub(super) lib_name: Vec<u8>,
    pub(super) lib_version: Vec<u8>,
}

/// The tenant and the user that a connection belongs to.
struct Owner {
    account: Arc<Account>,
    user: Arc<User>,
}

/// The record of one connection.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// Second of the server's life in which it connected.
    pub(super) since: u64,
    /// The second of the last change of phase, or of the last bytes that moved.
    last: AtomicU64,
    phase: AtomicU8,
    /// Since when its thread has been working for it without booking the time.
    turn: AtomicU64,
    /// The second since which it has belonged to nobody, if it belongs to nobody.
    stranger_since: AtomicU64,
    /// The owner; `None` until the client has logged in.
    owner: Mutex<Option<Owner>>,
    /// The chosen database, for `CLIENT LIST`.
    pub(super) database: AtomicU8,
    /// Whether `HELLO 3` was said.
    pub(super) resp3: AtomicBool,
    /// Whether the connection runs commands.
    pub(super) usage: Usage,
    /// How many names the connection listens to.
    subscriptions: Mutex<Counts>,
    /// Whether the connection receives every command of its tenant.
    pub(super) is_monitor: AtomicBool,
    /// Ends the wait of the connection's command, if one waits.
    ticket: Mutex<Option<Ticket>>,
    pub(super) names: Mutex<Names>,
    /// The index of the last command, as it is counted, plus one; 0 = there was none.
    last_command: AtomicUsize,
    /// The number of commands that wait for `EXEC`, plus one; 0 = no `MULTI`.
    queued: AtomicUsize,
    /// Bytes that the client has sent and that are being served.
    sent_bytes: AtomicUsize,
    /// Ends the connection's task; `None` until the task is started.
    abort: Mutex<Option<AbortHandle>>,
    /// Set when somebody has killed the connection. While it moves from thread to thread it cannot be aborted, and ends
    /// where it arrives.
    is_killed: AtomicBool,
    /// Set when the connection is about to end, though its last answer may still be on its way.
    has_left: AtomicBool,
}

impl Client {
    pub(super) fn enter(&self, phase: Phase, second: u64) {
        self.last.store(second, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// The client has sent a command, which is counted under `index`.
    #[inline]
    pub(super) fn said(&self, index: usize) {
        self.last_command.store(index + 1, Ordering::Relaxed);
    }

    /// From now on `queued` commands wait for `EXEC`; `None` = there is no `MULTI`.
    #[inline]
    pub(super) fn queues(&self, queued: Option<usize>) {
        self.queued.store(queued.map_or(0, |queued| queued + 1), Ordering::Relaxed);
    }

    /// The index of the last command, and how many commands wait for `EXEC`.
    pub(super) fn last_said(&self) -> (Option<usize>, Option<usize>) {
        let less = |number: &AtomicUsize| number.load(Ordering::Relaxed).checked_sub(1);
        (less(&self.last_command), less(&self.queued))
    }

    /// `bytes` of this client are being served.
    pub(super) fn sent(&self, bytes: usize) {
        self.sent_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of this client that are being served.
    pub(super) fn sent_bytes(&self) -> usize {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Relaxed))
    }

    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    /// The connection is about to end.
    pub(super) fn leave(&self) {
        self.has_left.store(true, Ordering::Relaxed);
    }

    /// The connection's thread turns to it.
    pub(crate) fn begin_turn(&self, now: Nanos) {
        self.turn.store(now, Ordering::Relaxed);
    }

    /// Whether the connection waits for its next request.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase() == Phase::Idle
    }

    /// Calls `visit` with the tenant's account, if the client has logged in.
    pub(crate) fn with_account(&self, visit: impl FnOnce(&Account)) {
        if let Some(owner) = &*self.owner.lock() {
            visit(&owner.account);
        }
    }

    /// How long the thread has worked for the connection since the turn began or since the last call.
    pub(crate) fn worked(&self, now: Nanos) -> Nanos {
        // Only one thread at a time has the connection.
        let since = self.turn.load(Ordering::Relaxed);
        self.turn.store(now, Ordering::Relaxed);
        now.saturating_sub(since)
    }

    /// From now on the connection belongs to this tenant and this user.
    fn belong_to(&self, account: &Arc<Account>, user: &Arc<User>, database: u8) {
        *self.owner.lock() = Some(Owner { account: Arc::clone(account), user: Arc::clone(user) });
        self.database.store(database, Ordering::Relaxed);
    }

    /// From this second on the connection belongs to nobody.
    fn become_stranger(&self, second: u64) {
        *self.owner.lock() = None;
        self.database.store(0, Ordering::Relaxed);
        self.stranger_since.store(second, Ordering::Relaxed);
    }

    /// The number of the tenant; `None` if the client has not logged in.
    fn tenant(&self) -> Option<u32> {
        self.owner.lock().as_ref().map(|owner| owner.account.tenant)
    }

    /// Whether the connection belongs to the tenant with this number, and is not about to end.
    fn is_there_of(&self, tenant: u32) -> bool {
        self.tenant() == Some(tenant) && !self.has_left()
    }

    /// Whether the connection belongs to this user.
    pub(super) fn is_of(&self, user: &Arc<User>) -> bool {
        self.owner.lock().as_ref().is_some_and(|owner| Arc::ptr_eq(&owner.user, user))
    }

    /// The name of the user; empty if the client has not logged in.
    pub(super) fn user_name(&self) -> Vec<u8> {
        self.owner.lock().as_ref().map_or_else(Vec::new, |owner| owner.user.name().to_vec())
    }

    /// The standing of the tenant; `None` if the client has not logged in.
    fn standing(&self) -> Option<Standing> {
        self.owner.lock().as_ref().map(|owner| owner.account.standing())
    }

    /// Whether the client has not logged in.
    fn is_stranger(&self) -> bool {
        self.owner.lock().is_none()
    }

    /// How long the connection has belonged to nobody, if it belongs to nobody.
    fn stranger_seconds(&self, second: u64) -> u64 {
        second.saturating_sub(self.stranger_since.load(Ordering::Relaxed))
    }

    /// The connection's command waits until somebody answers it.
    pub(super) fn block(&self) -> Later {
        let (ticket, later) = ticket();
        *self.ticket.lock() = Some(ticket);
        later
    }

    /// Takes what ends the wait of the command, if one waits and nobody else has taken it. Whoever takes it must answer
    /// it or give it back.
    pub(super) fn take_ticket(&self) -> Option<Ticket> {
        self.ticket.lock().take()
    }

    /// Gives the ticket back: the wait goes on, and others may end it.
    pub(super) fn give_ticket(&self, ticket: Ticket) {
        *self.ticket.lock() = Some(ticket);
    }

    /// Records how many names the connection listens to.
    pub(super) fn subscribed(&self, counts: Counts) {
        *self.subscriptions.lock() = counts;
    }

    /// How many names the connection listens to.
    pub(super) fn subscriptions(&self) -> Counts {
        *self.subscriptions.lock()
    }

    /// Whether the connection listens to anything.
    pub(super) fn is_subscribed(&self) -> bool {
        self.subscriptions().sum() > 0
    }

    /// Whether the connection waits for messages that others cause.
    fn is_told_unasked(&self) -> bool {
        self.is_subscribed() || self.is_monitor.load(Ordering::Relaxed)
    }

    /// The second of the connection's last sign of life.
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}

impl Recipient for Client {
    fn cut(&self) {
        Clients::kill(self);
    }

    fn address(&self) -> IpAddr {
        self.peer.ip()
    }

    fn speaks(&self) -> Speaks {
        let protocol = if self.resp3.load(Ordering::Relaxed) { Protocol::Resp3 } else { Protocol::Resp2 };
        Speaks { protocol, is_subscriber: self.is_subscribed() }
    }

    fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed) || self.is_killed()
    }
}

/// How long a connection may stay in a phase, in seconds; `None` = without limit.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Between two requests.
    pub idle_seconds: Option<u64>,
    /// Since the last byte of a request that is not complete.
    pub request_seconds: u64,
    /// Since the client last took a byte of its waiting replies.
    pub reply_seconds: u64,
    /// Without a login, since the start of the connection or its `RESET` (S2).
    pub login_seconds: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { idle_seconds: None, request_seconds: 30, reply_seconds: 60, login_seconds: 10 }
    }
}

impl Patience {
    /// Whether a connection that has been in `phase` for `seconds` must be cut.
    fn is_over(&self, phase: Phase, seconds: u64) -> bool {
        match phase {
            Phase::Idle => self.idle_seconds.is_some_and(|limit| seconds > limit),
            Phase::Receiving => seconds > self.request_seconds,
            Phase::Serving | Phase::Blocked | Phase::Paused => false,
            Phase::Replying => seconds > self.reply_seconds,
        }
    }
}

/// The oldest of `strangers` that is not being served. A stranger whose secret is being checked is spared; there are
/// only as many of those as hashes may wait. The stranger that is returned is taken off the list, and so are those
/// found on it that are strangers no longer.
fn oldest_idle(strangers: &mut VecDeque<u64>, all: &BTreeMap<u64, Arc<Client>>) -> Option<Arc<Client>> {
    let mut served = Vec::new();
    let oldest = loop {
        let Some(id) = strangers.pop_front() else { break None };
        match all.get(&id).filter(|client| client.is_stranger()) {
            Some(client) if client.phase() == Phase::Serving => served.push(id),
            Some(client) => break Some(Arc::clone(client)),
            None => {}
        }
    };
    served.into_iter().rev().for_each(|id| strangers.push_front(id));
    oldest
}

/// All connections, by their number.
#[derive(Default)]
pub(crate) struct Clients {
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
    by_tenant: ByTenant,
    /// Connections that may be strangers, the oldest first. Without this list, each connection of a flood of strangers
    /// would cause a search through all connections. Lock order: after `all`.
    strangers: Mutex<VecDeque<u64>>,
    last_id: AtomicU64,
    count: AtomicUsize,
    displaced: AtomicU64,
}

impl Clients {
    /// A record for a new connection. If there are `max` already, the stranger who has been there longest makes room;
    /// if there is no stranger, the connection is not admitted.
    pub(crate) fn admit(&self, peer: SocketAddr, local: SocketAddr, second: u64, max: usize) -> Option<Arc<Client>> {
        let mut all = self.all.lock();
        let mut strangers = self.strangers.lock();
        if all.len() >= max {
            let oldest = oldest_idle(&mut strangers, &all)?;
            all.remove(&oldest.id);
            Self::kill(&oldest);
            self.displaced.fetch_add(1, Ordering::Relaxed);
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client {
            id,
            peer,
            local,
            since: second,
            last: AtomicU64::new(second),
            phase: AtomicU8::new(Phase::Idle as u8),
            turn: AtomicU64::new(0),
            stranger_since: AtomicU64::new(second),
            owner: Mutex::new(None),
            database: AtomicU8::new(0),
            usage: Usage::default(),
            resp3: AtomicBool::new(false),
            subscriptions: Mutex::default(),
            is_monitor: AtomicBool::new(false),
            ticket: Mutex::default(),
            names: Mutex::default(),
            last_command: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            sent_bytes: AtomicUsize::new(0),
            abort: Mutex::new(None),
            is_killed: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
        });
        all.insert(id, Arc::clone(&client));
        strangers.push_back(id);
        self.count.store(all.len(), Ordering::Relaxed);
        Some(client)
    }

    /// The connection's task has been started. From now on it can be cut, and if it was killed before, it is cut now.
    pub(crate) fn started(&self, client: &Client, abort: AbortHandle) {
        let abort = client.abort.lock().insert(abort).clone();
        if client.is_killed() {
            abort.abort();
        }
    }

    /// How many strangers ever had to make room.
    pub(crate) fn displaced(&self) -> u64 {
        self.displaced.load(Ordering::Relaxed)
    }

    /// Forgets a connection that has ended.
    pub(crate) fn leave(&self, client: &Client) {
        self.part(client);
        let mut all = self.all.lock();
        all.remove(&client.id);
        self.count.store(all.len(), Ordering::Relaxed);
    }

    /// From now on `client` belongs to this tenant and this user.
    pub(super) fn belong_to(&self, client: &Arc<Client>, account: &Arc<Account>, user: &Arc<User>, database: u8) {
        if client.tenant() != Some(account.tenant) {
            self.part(client);
        }
        client.belong_to(account, user, database);
        self.by_tenant.add(account.tenant, client);
    }

    /// From this second on `client` belongs to nobody.
    pub(super) fn become_stranger(&self, client: &Client, second: u64) {
        self.part(client);
        client.become_stranger(second);
    }

    /// `client` is no longer found among the connections of its tenant.
    fn part(&self, client: &Client) {
        if let Some(tenant) = client.tenant() {
            self.by_tenant.remove(tenant, client);
        }
    }

    /// Open connections.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The number of connections ever admitted.
    pub(crate) fn admitted(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// The records of one tenant's connections, oldest first (S5). They may be gone through in turns.
    pub(super) fn of_tenant(&self, tenant: u32) -> impl Iterator<Item = Arc<Client>> {
        self.by_tenant.of(tenant).filter(move |client| client.is_there_of(tenant))
    }

    /// The record of one tenant's connection with this number (S5).
    pub(super) fn find(&self, tenant: u32, id: u64) -> Option<Arc<Client>> {
        self.all.lock().get(&id).filter(|client| client.is_there_of(tenant)).cloned()
    }

    /// How many of one tenant's connections wait for an answer to their command.
    pub(super) fn blocked(&self, tenant: u32) -> usize {
        self.by_tenant.of(tenant).filter(|client| matches!(client.phase(), Phase::Blocked | Phase::Paused)).count()
    }

    /// Whether any of one tenant's connections runs commands.
    pub(super) fn use_databases(&self, tenant: u32) -> bool {
        self.by_tenant.of(tenant).any(|client| client.usage.is_under_way())
    }

    /// Cuts every connection whose time limit is over at `second`, or whose tenant was dropped. Returns how many.
    pub(crate) fn sweep(&self, second: u64, patience: &Patience) -> usize {
        let all = self.all.lock();
        // A client that has logged in is no longer a stranger, and one that has said `RESET` is one again.
        *self.strangers.lock() = all.values().filter(|client| client.is_stranger()).map(|client| client.id).collect();
        drop(all);
        self.cut(|client| match client.standing() {
            Some(Standing::Dropped) => true,
            None if client.stranger_seconds(second) > patience.login_seconds => true,
            // A connection that listens is not idle.
            _ if client.phase() == Phase::Idle && client.is_told_unasked() => false,
            _ => patience.is_over(client.phase(), second.saturating_sub(client.last())),
        })
    }

    /// Cuts every connection that serves no request, or that waits for something which may never come. Returns how
    /// many.
    pub(crate) fn cut_idle(&self) -> usize {
        self.cut(|client| matches!(client.phase(), Phase::Idle | Phase::Receiving | Phase::Blocked))
    }

    /// Cuts all connections.
    pub(crate) fn cut_all(&self) -> usize {
        self.cut(|_| true)
    }

    /// Cuts `client`, at its next wait.
    pub(super) fn kill(client: &Client) {
        client.is_killed.store(true, Ordering::Relaxed);
        if let Some(abort) = &*client.abort.lock() {
            abort.abort();
        }
    }

    fn cut(&self, is_over: impl Fn(&Client) -> bool) -> usize {
        let mut cut = 0;
        for client in self.all.lock().values().filter(|client| is_over(client)) {
            if let Some(abort) = &*client.abort.lock() {
                abort.abort();
                cut += 1;
            }
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_keeps_us_waiting_is_cut() {
        let patience = Patience { idle_seconds: Some(300), request_seconds: 30, reply_seconds: 60, login_seconds: 10 };
        for (phase, limit) in [(Phase::Idle, 300), (Phase::Receiving, 30), (Phase::Replying, 60)] {
            assert!(!patience.is_over(phase, limit) && patience.is_over(phase, limit + 1), "{phase:?}");
        }
        assert!(!patience.is_over(Phase::Serving, u64::MAX));
        assert!(!Patience::default().is_over(Phase::Idle, u64::MAX));
    }

    #[test]
    fn s13_the_oldest_stranger_makes_room() {
        let clients = Clients::default();
        let address = "127.0.0.1:1".parse().expect("an address");
        let admit = || clients.admit(address, address, 0, 3);
        let [first, second, third] = std::array::from_fn(|_| admit().expect("room"));
        first.enter(Phase::Serving, 0);
        let fourth = admit().expect("the second makes room");
        assert!(second.is_killed() && !first.is_killed() && !third.is_killed());
        assert_eq!((clients.count(), clients.displaced()), (3, 1));
        first.enter(Phase::Idle, 0);
        clients.sweep(0, &Patience::default());
        admit().expect("the first makes room");
        assert!(first.is_killed() && !third.is_killed());
        for client in [&third, &fourth] {
            client.enter(Phase::Serving, 0);
        }
        admit().expect("the youngest makes room");
        assert!(!third.is_killed() && !fourth.is_killed());
    }

    #[test]
    fn who_is_cut_before_he_is_served_is_not_served() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let clients = Clients::default();
        let address = "127.0.0.1:1".parse().expect("an address");
        let client = clients.admit(address, address, 0, 1).expect("room");
        Clients::kill(&client);
        let task = runtime.spawn(std::future::pending::<()>());
        clients.started(&client, task.abort_handle());
        assert!(runtime.block_on(task).expect_err("it would wait for ever").is_cancelled());
    }

    #[test]
    fn s2_a_stranger_has_its_seconds_from_when_it_became_one() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let task = runtime.spawn(std::future::pending::<()>());
        let (clients, patience) = (Clients::default(), Patience { login_seconds: 10, ..Patience::default() });
        let address = "127.0.0.1:1".parse().expect("an address");
        let client = clients.admit(address, address, 5, 1).expect("room");
        clients.started(&client, task.abort_handle());
        assert_eq!((clients.sweep(15, &patience), clients.sweep(16, &patience)), (0, 1));
        client.become_stranger(100);
        assert_eq!((clients.sweep(110, &patience), clients.sweep(111, &patience)), (0, 1));
    }
}
