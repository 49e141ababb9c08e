//! Accepting connections and spreading them over threads.
//!
//! Each thread has one event loop, and one thread at a time serves a connection. So the connection's commands never hop
//! between processors, and a request for data in memory is answered without waking anybody. A connection
//! [moves](connection::Moving) when the work needs [more threads or fewer](crate::spread), when it sends or asks for
//! long values, and when its tenant is [noisy](crate::noisy_neighbour). One more loop, the caller's, accepts
//! connections, sweeps once a second, judges over how many threads the work is spread, and waits for the end.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use weir_io::real::{RealSpawn, be_nice, be_prompt};
use weir_io::{BoxFuture, Clock, Nanos, sleep_until};

use crate::auth::{Doorman, Refusal};
use crate::key_events::send_waiting;
use crate::noisy_neighbour::ProcessorUse;
use crate::notices::{Notice, What};
use crate::resp::YIELD;
use crate::resp::client::Client;
use crate::resp::connection::{self, Moving};
use crate::resp::slow_replies::SlowReply;
use crate::scripts;
use crate::server::{Server, Settings};
use crate::serving_thread::ServingThread;
use crate::spread::{self, Done, Sight, Spread};
use crate::stats::Totals;
use crate::store::Store;
use crate::stream::Stream;
use crate::tenant::account::{Account, Costs, TenantConnections};
use crate::tls::{Handshake, Tls};

/// Connections that the kernel queues until the gateway accepts them.
const BACKLOG: u32 = 1024;
/// Accepted connections on their way to one thread.
const HANDED_OVER_MAX: usize = 256;
/// How long requests under way may still take after the gateway was asked to end.
const DRAIN_NANOS: u64 = 10_000_000_000;
/// How often the gateway checks, while it drains, whether the last connection has ended.
const DRAIN_STEP_NANOS: u64 = 10_000_000;
/// Pause after an error of `accept` that concerns the whole process, such as too many open files.
const ACCEPT_PAUSE_NANOS: u64 = 100_000_000;

/// How much nicer the threads for long requests and noisy neighbours are. A client that copies megabytes or sends
/// requests without end is served while nobody has a short request.
const LONG_NICE: i32 = 5;

const SECOND_NANOS: u64 = 1_000_000_000;

/// How long events that no connection has caused are gathered before they are sent.
const GATHER_NANOS: u64 = 10_000_000;

async fn pause(clock: &Arc<dyn Clock>, nanos: u64) {
    sleep_until(clock, clock.now() + nanos).await;
}

/// Listens at `address` (port 0 = any free one). Connections wait until a gateway serves them.
///
/// # Errors
/// It is not possible to listen at the address.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Where clients connect.
pub struct Entrance {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
}

impl Entrance {
    /// An entrance where clients speak plain text.
    pub fn plain(listener: TcpListener) -> Self {
        Self { listener, tls: None }
    }

    /// An entrance where clients speak TLS.
    pub fn secured(listener: TcpListener, tls: Arc<Tls>) -> Self {
        Self { listener, tls: Some(tls) }
    }
}

/// A gateway that listens, and serves once [`Gateway::run`] is called.
pub struct Gateway<S: Store> {
    server: Arc<Server<S>>,
    entrances: Vec<Entrance>,
    address: SocketAddr,
}

/// What a gateway counts, for the metrics.
pub struct Observer<S: Store>(Arc<Server<S>>);

impl<S: Store> Clone for Observer<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Store> Observer<S> {
    /// Open connections.
    pub fn connections(&self) -> u64 {
        self.clients().open
    }

    /// Seconds since the start in which clients could be served: the number of sweeps. All time limits on clients are
    /// measured in these.
    pub fn seconds(&self) -> u64 {
        self.0.second()
    }

    /// Replies by how long they took ([`crate::latency`]), by tenant.
    pub fn latencies(&self) -> BTreeMap<u32, Vec<u64>> {
        self.0.accounts.latencies()
    }

    /// What each tenant has used of the threads, and whether its connections go behind those of others.
    pub fn processor_use(&self) -> BTreeMap<u32, ProcessorUse> {
        self.0.accounts.processor_use()
    }

    /// What the commands of each tenant have cost.
    pub fn costs(&self) -> BTreeMap<u32, Costs> {
        self.0.accounts.costs()
    }

    /// The last replies for which the clients of one tenant waited long, newest first.
    pub fn slow_replies(&self, tenant: u32) -> Vec<SlowReply> {
        self.0.accounts.slow_replies(tenant)
    }

    /// The connections of one tenant.
    pub fn tenant_connections(&self, tenant: u32) -> TenantConnections {
        self.0.accounts.connections_of(tenant)
    }

    /// The connections of every tenant that has connected.
    pub(crate) fn connections_by_tenant(&self) -> Vec<(Arc<str>, TenantConnections)> {
        self.0.accounts.connections()
    }

    /// Replies by how long they took, for the `count` tenants that used the threads most.
    pub(crate) fn busiest_latencies(&self, count: usize) -> Vec<(Arc<str>, Vec<u64>)> {
        self.0.accounts.busiest_latencies(count)
    }

    /// Refused logins, by [`Refusal::REASONS`].
    pub(crate) fn logins_refused(&self) -> [u64; Refusal::REASONS.len()] {
        self.0.logins_refused.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn totals(&self) -> Totals {
        self.0.stats.totals()
    }

    pub(crate) fn clients(&self) -> ClientCounts {
        let clients = &self.0.clients;
        ClientCounts { open: clients.count() as u64, admitted: clients.admitted(), displaced: clients.displaced() }
    }
}

/// Connections open now, and ever accepted.
pub(crate) struct ClientCounts {
    pub(crate) open: u64,
    pub(crate) admitted: u64,
    pub(crate) displaced: u64,
}

/// A connection that arrives at a thread.
enum Arrival<S: Store> {
    New(std::net::TcpStream, Arc<Client>),
    Secured(std::net::TcpStream, Box<Handshake>, Arc<Client>),
    Moving(Box<Moving<S>>),
}

impl<S: Store> Gateway<S> {
    /// A gateway that serves the clients whom `doorman` lets in at `entrance`. The stores behind it judge expiry by the
    /// same `clock`.
    ///
    /// # Errors
    /// The listener has no address, or there are no random bytes.
    pub fn new(
        entrance: Entrance,
        settings: Settings,
        doorman: Arc<dyn Doorman<S>>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let address = entrance.listener.local_addr()?;
        let script_threads = Arc::new(RealSpawn::new(scripts::THREADS, scripts::NICE));
        let server = Arc::new(Server::new(doorman, clock, settings, script_threads, address.port())?);
        Ok(Self { server, entrances: vec![entrance], address })
    }

    /// Also serves clients who connect to `entrance`.
    pub fn listen_also(&mut self, entrance: Entrance) {
        self.entrances.push(entrance);
    }

    /// The address of the first entrance.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A view of the gateway's counters.
    pub fn observer(&self) -> Observer<S> {
        Observer(Arc::clone(&self.server))
    }

    /// Serves until `end` resolves. Then it answers the requests under way, closes every connection and drops the
    /// doorman.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub async fn run(self, end: impl Future<Output = ()>) -> io::Result<()> {
        let Self { server, entrances, .. } = self;
        let began = server.clock.now();
        let places: Vec<ServingThread> = server.settings.serving_threads().collect();
        let (arrivals, receivers): (Vec<_>, Vec<_>) = places.iter().map(|_| mpsc::channel(HANDED_OVER_MAX)).unzip();
        // Weak, so that a thread ends when nothing can arrive any more.
        let doors: Arc<[_]> = arrivals.iter().map(mpsc::Sender::downgrade).collect();
        let mut threads = Vec::new();
        for (place, receiver) in places.into_iter().zip(receivers) {
            threads.push(start_thread(Arc::clone(&server), receiver, place, Arc::clone(&doors))?);
        }
        {
            let mut end = pin!(end);
            let accept = join_all(entrances.iter().map(|entrance| accept(&server, entrance, &arrivals)));
            tokio::select! {
                biased;
                () = &mut end => {}
                _ = accept => {}
                () = sweep(&server, began) => {}
                () = spread(&server) => {}
                () = send_unsent_events(&server) => {}
            }
        }
        drop(entrances);
        drain(&server).await;
        drop(arrivals);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the gateway panicked");
            }
        }
        Ok(())
    }
}

/// Accepts connections for ever.
async fn accept<S: Store>(server: &Arc<Server<S>>, entrance: &Entrance, arrivals: &[mpsc::Sender<Arrival<S>>]) {
    let Entrance { listener, tls } = entrance;
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                pause(&server.clock, ACCEPT_PAUSE_NANOS).await;
                continue;
            }
        };
        let local = stream.local_addr().unwrap_or(peer);
        let Some(client) = server.clients.admit(peer, local, server.second(), server.settings.connections_max) else {
            server.stats.refused.fetch_add(1, Ordering::Relaxed);
            let notice = Notice { what: What::NodeFull, tenant: None, address: Some(peer.ip()) };
            server.notices.tell(notice, server.clock.now());
            if tls.is_none() {
                refuse(&stream);
            }
            continue;
        };
        let admitted = Arc::clone(&client);
        let handed_over = match stream.set_nodelay(true).and_then(|()| stream.into_std()) {
            Ok(stream) => {
                // A handshake costs a millisecond, so it is made on a thread where other clients do not wait for it.
                let home = server.home(admitted.id, tls.is_some());
                let arrival = match tls {
                    Some(tls) => Arrival::Secured(stream, Box::new(tls.begin(server.clock.now())), client),
                    None => Arrival::New(stream, client),
                };
                arrivals[home].send(arrival).await.is_ok()
            }
            Err(_) => false,
        };
        if !handed_over {
            server.clients.leave(&admitted);
        }
    }
}

/// Sends the reason if the socket takes it at once, and closes the connection.
fn refuse(stream: &TcpStream) {
    // A client that has gone already needs no reason.
    let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
}

/// Once a second: advances the time, and cuts connections that keep the gateway waiting too long.
async fn sweep<S: Store>(server: &Arc<Server<S>>, began: Nanos) {
    let mut due = began + SECOND_NANOS;
    loop {
        sleep_until(&server.clock, due).await;
        let now = server.clock.now();
        due = next_sweep(due, now);
        server.accounts.sweep(now, &server.stats.judge_threads());
        let cut = server.clients.sweep(server.tick(), &server.settings.patience);
        server.stats.cut.fetch_add(cut as u64, Ordering::Relaxed);
        server.notices.sweep(now);
        server.accounts.look_for_events();
    }
}

/// Waits for events of keys that no connection has caused, and then a little longer: events of keys that expire at the
/// same time go together.
async fn gathered<S: Store>(server: &Server<S>) {
    server.accounts.events_by_nobody().await;
    pause(&server.clock, GATHER_NANOS).await;
}

/// Sends events of keys that no connection sends: those that no connection has caused, soon after they happen, and
/// those whose connection has gone. A tenant whose events take long to send keeps no other tenant's waiting.
async fn send_unsent_events<S: Store>(server: &Arc<Server<S>>) {
    let (mut sending, mut senders) = (FuturesUnordered::new(), BTreeSet::new());
    let mut by_nobody = pin!(gathered(server));
    loop {
        tokio::select! {
            Some(tenant) = sending.next() => {
                senders.remove(&tenant);
                continue;
            }
            () = &mut by_nobody => by_nobody.set(gathered(server)),
            () = server.accounts.events_left() => {}
        }
        for account in server.accounts.with_events() {
            if senders.insert(account.tenant) {
                sending.push(send_events(server, account));
            }
        }
    }
}

/// Sends the events of the keys of `account`. Returns the tenant's number.
async fn send_events<S: Store>(server: &Server<S>, account: Arc<Account>) -> u32 {
    let now = server.clock.now();
    for address in send_waiting(&account.key_events, (&account.pubsub, &account.tracking), now, YIELD).await {
        for stats in [&server.stats, &account.stats] {
            stats.slow_listeners.fetch_add(1, Ordering::Relaxed);
        }
        let tenant = Some(Arc::clone(&account.name));
        server.notices.tell(Notice { what: What::SlowListener, tenant, address: Some(address) }, now);
    }
    account.tenant
}

/// Judges again and again how many threads should serve.
async fn spread<S: Store>(server: &Arc<Server<S>>) {
    let threads = server.settings.threads;
    let mut spread = Spread::new(threads);
    let look = || {
        let now = server.clock.now();
        Sight::new(now, server.stats.work(threads, now), (server.settings.idle_time)())
    };
    let mut before = look();
    loop {
        pause(&server.clock, spread::LOOK_NANOS).await;
        let now = look();
        server.spread_over(spread.look(Done::between(&before, &now)));
        before = now;
    }
}

/// The time of the sweep after the one that was `due` and is made `now`. A late sweep counts as one second like any
/// other: time in which this process or its machine stood still does not count against anybody's patience, because
/// nobody could be served in it.
fn next_sweep(due: Nanos, now: Nanos) -> Nanos {
    let next = due + SECOND_NANOS;
    if next > now { next } else { now + SECOND_NANOS }
}

/// Gives requests under way some time to be answered.
async fn drain<S: Store>(server: &Arc<Server<S>>) {
    server.drain();
    server.clients.cut_idle();
    let deadline = server.clock.now() + DRAIN_NANOS;
    while server.clients.count() > 0 && server.clock.now() < deadline {
        pause(&server.clock, DRAIN_STEP_NANOS).await;
        server.clients.cut_idle();
    }
    let cut = server.clients.cut_all();
    if cut > 0 {
        tracing::warn!(connections = cut, "connections were cut at shutdown while their requests were still under way");
    }
}

/// A thread with an event loop that serves what arrives, until nothing can arrive any more.
#[allow(clippy::disallowed_methods, reason = "the doors are where the outside world begins: an event loop is a thread")]
fn start_thread<S: Store>(
    server: Arc<Server<S>>,
    mut arrivals: mpsc::Receiver<Arrival<S>>,
    place: ServingThread,
    doors: Arc<[mpsc::WeakSender<Arrival<S>>]>,
) -> io::Result<JoinHandle<()>> {
    let (falls_asleep, wakes_up) = (Arc::clone(&server), Arc::clone(&server));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .on_thread_park(move || falls_asleep.stats.thread(place.index).asleep.begin(falls_asleep.clock.now()))
        .on_thread_unpark(move || wakes_up.stats.thread(place.index).asleep.end(wakes_up.clock.now()))
        .build()?;
    let name = if place.is_long { "gateway-long" } else { "gateway" };
    std::thread::Builder::new().name(format!("{name}-{}", place.index)).spawn(move || {
        if place.is_long {
            be_nice(LONG_NICE);
        } else {
            be_prompt();
        }
        runtime.block_on(async {
            while let Some(arrival) = arrivals.recv().await {
                let client = arrival.client();
                match arrival.serve(&server, place) {
                    Ok(mut served) => {
                        let (turns, thread, doors) = (Arc::clone(&client), Arc::clone(&server), Arc::clone(&doors));
                        let task = tokio::spawn(async move {
                            let moving = poll_fn(|cx| {
                                let now = thread.clock.now();
                                turns.begin_turn(now);
                                thread.stats.thread(place.index).busy.read(now, || thread.clock.processor_time());
                                let polled = served.as_mut().poll(cx);
                                if polled.is_pending() {
                                    end_turn(&turns, &thread, place.index);
                                }
                                polled
                            })
                            .await;
                            if let Some(moving) = moving
                                && let Some(door) = doors[moving.to].upgrade()
                            {
                                // This fails when the gateway ends, and the connection ends with it.
                                let _ = door.send(Arrival::Moving(moving)).await;
                            }
                        });
                        server.clients.started(&client, task.abort_handle());
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot serve a connection");
                        server.clients.leave(&client);
                    }
                }
            }
        });
    })
}

/// The thread with the number `index` turns from `client` to others, in the middle of a request or of its reply. This
/// books the time that the thread has worked for `client`, because nothing else does: a command that goes through much
/// data may end its turn thousands of times before it is answered.
fn end_turn<S: Store>(client: &Client, server: &Server<S>, index: usize) {
    if client.is_idle() {
        return;
    }
    let worked = client.worked(server.clock.now());
    server.stats.thread(index).busy.add(worked);
    client.with_account(|account| account.stats.thread(index).busy.add(worked));
}

impl<S: Store> Arrival<S> {
    fn client(&self) -> Arc<Client> {
        match self {
            Arrival::New(_, client) | Arrival::Secured(_, _, client) => Arc::clone(client),
            Arrival::Moving(moving) => moving.client(),
        }
    }

    /// Serves the arrival. To be called on the event loop of `place`.
    fn serve(self, server: &Arc<Server<S>>, place: ServingThread) -> io::Result<BoxFuture<Option<Box<Moving<S>>>>> {
        match self {
            Arrival::New(stream, client) => {
                let stream = Stream::Plain(TcpStream::from_std(stream)?);
                Ok(Box::pin(connection::begin(stream, Vec::new(), Arc::clone(server), client, place)))
            }
            Arrival::Secured(stream, handshake, client) => {
                let socket = TcpStream::from_std(stream)?;
                Ok(Box::pin(connection::begin_secured(socket, *handshake, Arc::clone(server), client, place)))
            }
            Arrival::Moving(moving) => Ok(Box::pin(moving.arrive(place)?)),
        }
    }
}
