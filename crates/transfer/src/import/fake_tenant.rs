//! A tenant of several partitions, in memory, over a socket, that falls silent after a given number of requests: then
//! its client is where a kill would have left it. Requests that were sent and not done yet it does later, as a server
//! does that finds them in a socket whose other end is gone. Its log may fail, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use weir_io::{Clock, Nanos};
use weir_model::partition_of;

use super::partitions::Words;
use crate::address::Address;
use crate::resp::take_request;

/// Values by database and key.
pub(super) type Rows = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

/// Room for what is read at once: a whole transaction.
const READ_BYTES: usize = 64 << 10;

/// The units that a tenant with a limit may save up. One comes in a millisecond.
const UNITS_MAX: i64 = 10;

/// The answer to a write while the log has failed.
const DISK_FAILED: &str = "-ERR storage: the disk failed, the server's log says how\r\n";

/// The tenant of a test.
pub(super) struct FakeTenant {
    pub(super) address: Address,
    state: Arc<Mutex<State>>,
    silent: watch::Receiver<bool>,
    accepting: AbortHandle,
}

struct State {
    rows: Rows,
    /// How often each key was changed.
    changes: BTreeMap<(u8, Vec<u8>), u64>,
    partitions: usize,
    /// How many more requests are done.
    left: u64,
    /// After this many of them, the late requests of the connection before are done.
    late_after: u64,
    /// Requests of a connection that were not done, and what the connection had said before.
    late: Option<(Said, Vec<Words>)>,
    silence: watch::Sender<bool>,
    /// After how many more writes the log fails, if it will, and how.
    failure: Option<(u64, LogFailure)>,
    /// Transactions of more commands are always put off, and how often that was.
    commands_max: usize,
    put_off: u64,
    /// Transactions that come sooner than this after their `MULTI`, in nanoseconds on the clock, are put off, too.
    rest: Option<(Arc<dyn Clock>, Nanos)>,
    /// Units that are left, and when that was so, in milliseconds on the clock. A command costs one, and without them
    /// it is put off. A transaction that costs more than there may be passes when all are there, and leaves a debt.
    units: Option<(Arc<dyn Clock>, i64, u64)>,
    /// The login may not use transactions.
    no_transactions: bool,
    /// After how many more requests a connection is cut, and whether the request that meets the cut is done.
    cut: Option<(u64, bool)>,
    /// The moments at which expiry was paused.
    pauses: Vec<u64>,
    /// What reads show while the log has failed, and how many more reads and writes come until it is replaced.
    fence: Option<(Rows, u64)>,
}

/// What a failure of the log does.
#[derive(Clone, Copy)]
struct LogFailure {
    /// Whether the write that met it counts as done in the end.
    is_done: bool,
    /// How many more reads and writes come until the log is replaced; the writes are refused.
    refusals: u64,
}

/// What a connection has said.
#[derive(Default)]
struct Said {
    is_cut: bool,
    database: u8,
    knows_partitions: bool,
    queue: Option<Vec<Words>>,
    /// When the queue was begun.
    begun: Nanos,
    watched: BTreeMap<(u8, Vec<u8>), u64>,
}

impl FakeTenant {
    /// Starts a tenant of this many partitions, which does any number of requests.
    pub(super) async fn start(partitions: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Address::plain(&listener.local_addr().expect("bound").to_string()).expect("an address");
        let (silence, silent) = watch::channel(false);
        let (rows, changes) = (Rows::new(), BTreeMap::new());
        let (left, late_after, late) = (u64::MAX, 0, None);
        let state = State {
            rows,
            changes,
            partitions,
            left,
            late_after,
            late,
            silence,
            failure: None,
            commands_max: usize::MAX,
            put_off: 0,
            rest: None,
            units: None,
            no_transactions: false,
            cut: None,
            pauses: Vec::new(),
            fence: None,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("a socket");
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, state, silent, accepting: accepting.abort_handle() }
    }

    /// Allows `requests` more requests, and does the late ones of before after `late_after` of them. The receiver is
    /// told when all are done.
    pub(super) fn allow(&self, requests: u64, late_after: u64) -> watch::Receiver<bool> {
        let mut state = self.state.lock();
        (state.left, state.late_after) = (requests, late_after);
        state.silence.send_replace(false);
        self.silent.clone()
    }

    /// Lets the log fail at the write behind `writes` others. That one is answered with an error although it counts as
    /// done in the end, if it `is_done`; then the log is replaced behind `refusals` more reads and writes.
    pub(super) fn fail(&self, writes: u64, is_done: bool, refusals: u64) {
        self.state.lock().failure = Some((writes, LogFailure { is_done, refusals }));
    }

    /// Puts off all transactions of more than `commands`: they cost more than the tenant may save up.
    pub(super) fn limit(&self, commands: usize) {
        self.state.lock().commands_max = commands;
    }

    /// Puts off all transactions that come sooner than `rest` nanoseconds after their `MULTI`: they need all units that
    /// the tenant may save up, and `MULTI` has cost some.
    pub(super) fn limit_rest(&self, clock: &Arc<dyn Clock>, rest: Nanos) {
        self.state.lock().rest = Some((Arc::clone(clock), rest));
    }

    /// Limits the tenant to [`UNITS_MAX`] units at once.
    pub(super) fn limit_units(&self, clock: &Arc<dyn Clock>) {
        self.state.lock().units = Some((Arc::clone(clock), UNITS_MAX, clock.now() / 1_000_000));
    }

    /// Takes away the right to use transactions.
    pub(super) fn forbid_transactions(&self) {
        self.state.lock().no_transactions = true;
    }

    /// Cuts the connection that sends the request behind `requests` others, and does that request if it `is_done`.
    pub(super) fn cut(&self, requests: u64, is_done: bool) {
        self.state.lock().cut = Some((requests, is_done));
    }

    /// Takes no new connections any more.
    pub(super) fn go_away(&self) {
        self.accepting.abort();
    }

    /// Whether no connection is to be cut any more.
    pub(super) fn has_cut(&self) -> bool {
        self.state.lock().cut.is_none()
    }

    /// How often a transaction was put off.
    pub(super) fn put_off(&self) -> u64 {
        self.state.lock().put_off
    }

    /// Whether the log has failed since it was told to.
    pub(super) fn has_failed(&self) -> bool {
        self.state.lock().failure.is_none()
    }

    /// The moments at which the tenant's expiry was paused, in milliseconds since 1970.
    pub(super) fn pauses(&self) -> Vec<u64> {
        self.state.lock().pauses.clone()
    }

    /// The tenant's data.
    pub(super) fn rows(&self) -> Rows {
        self.state.lock().rows.clone()
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let (mut received, mut said) = (Vec::with_capacity(READ_BYTES), Said::default());
    loop {
        let mut rest = &received[..];
        let answers = answer_all(&mut rest, &mut said, &state);
        if said.is_cut {
            return;
        }
        let Some(answers) = answers else {
            // The client is killed while it waits.
            return std::future::pending().await;
        };
        let taken = received.len() - rest.len();
        received.drain(..taken);
        if stream.write_all(&answers).await.is_err() || stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// The answers to all requests that are whole; `None` if the tenant falls silent, or cuts the connection.
fn answer_all(rest: &mut &[u8], said: &mut Said, state: &Mutex<State>) -> Option<Vec<u8>> {
    let mut state = state.lock();
    let mut answers = Vec::new();
    while let Some(words) = take_request(rest).expect("requests") {
        if state.is_silent() {
            let behind = std::iter::from_fn(|| take_request(rest).expect("requests"));
            let behind: Vec<Words> = [words].into_iter().chain(behind).collect();
            // Only transactions are kept for later: the import guards itself against these, by `WATCH`.
            if behind.last().is_some_and(|words| words[0] == b"EXEC") {
                state.late = Some((std::mem::take(said), behind));
            }
            return None;
        }
        let cut = state.cut.take();
        state.cut = cut.and_then(|(left, is_done)| Some((left.checked_sub(1)?, is_done)));
        if let Some((0, is_done)) = cut {
            if is_done {
                state.answer(said, words);
            }
            said.is_cut = true;
            return None;
        }
        answers.extend(state.answer(said, words).into_bytes());
    }
    Some(answers)
}

impl State {
    /// Counts a request, and says whether it is not to be done. In front of one of them the late requests are done.
    fn is_silent(&mut self) -> bool {
        if self.left == 0 {
            self.silence.send_replace(true);
            return true;
        }
        self.left -= 1;
        match self.late_after.checked_sub(1) {
            Some(rest) => self.late_after = rest,
            None => {
                let (mut said, late) = self.late.take().unwrap_or_default();
                late.into_iter().for_each(|words| drop(self.answer(&mut said, words)));
            }
        }
        false
    }

    fn answer(&mut self, said: &mut Said, words: Words) -> String {
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        match (name.as_str(), &mut said.queue) {
            ("EXEC", Some(_)) => self.exec(said),
            (_, Some(queue)) => {
                queue.push(words);
                "+QUEUED\r\n".to_owned()
            }
            ("MULTI", None) if self.no_transactions => "-NOPERM this user may not run 'multi'\r\n".to_owned(),
            ("EXEC", None) => "-ERR EXEC without MULTI\r\n".to_owned(),
            ("MULTI", None) => {
                said.queue = Some(Vec::new());
                said.begun = self.rest.as_ref().map_or(0, |(clock, _)| clock.now());
                "+OK\r\n".to_owned()
            }
            ("CLIENT", None) if words[1] == b"PAUSE" => {
                self.pauses.push(String::from_utf8_lossy(&words[4]).parse().expect("a moment"));
                "+OK\r\n".to_owned()
            }
            ("RANDOMKEY", None) if self.rows.keys().any(|(at, _)| *at == said.database) => "+key\r\n".to_owned(),
            // What is not told is as usual: one partition, and values of any length.
            ("RANDOMKEY" | "CONFIG" | "INFO", None) => "$-1\r\n".to_owned(),
            ("CLIENT", None) => {
                said.knows_partitions = true;
                "+OK\r\n".to_owned()
            }
            ("WATCH", None) => {
                let row = (said.database, words[1].clone());
                let changes = self.changes.get(&row).copied().unwrap_or(0);
                said.watched.entry(row).or_insert(changes);
                "+OK\r\n".to_owned()
            }
            ("UNWATCH", None) => {
                said.watched.clear();
                "+OK\r\n".to_owned()
            }
            _ => self.run(&mut said.database, &words),
        }
    }

    fn exec(&mut self, said: &mut Said) -> String {
        let queue = said.queue.take().unwrap_or_default();
        let watched = std::mem::take(&mut said.watched);
        let is_of_keys = |words: &&Words| ![&b"SWAPDB"[..], b"EVAL"].contains(&&words[0][..]);
        let keys = queue.iter().filter(is_of_keys).map(|words| &words[1]).chain(watched.keys().map(|(_, key)| key));
        let places: BTreeSet<usize> = keys.map(|key| partition_of(key, self.partitions)).collect();
        let may_span_slots = said.knows_partitions || self.partitions == 1;
        assert!(may_span_slots && places.len() == 1, "a transaction of {places:?}");
        if watched.iter().any(|(row, changes)| self.changes.get(row).copied().unwrap_or(0) != *changes) {
            return "*-1\r\n".to_owned();
        }
        // An exchange of databases costs nothing that would have to be there before.
        let is_charged = queue.iter().any(|words| is_of_keys(&words));
        let comes_soon = self.rest.as_ref().is_some_and(|(clock, rest)| clock.now() - said.begun < *rest);
        if queue.len() > self.commands_max || is_charged && comes_soon {
            self.put_off += 1;
            assert!(self.put_off < 100_000, "nothing passes any more");
            return "-THROTTLED retry_in_ms=5 reason=tenant_wcu\r\n".to_owned();
        }
        if let Some(refusal) = self.take(i64::try_from(queue.len()).expect("a short one")) {
            return refusal;
        }
        self.write(&mut said.database, |state, database| {
            let answers: Vec<String> =
                queue.iter().map(|words| apply(&mut state.rows, &mut state.changes, database, words)).collect();
            format!("*{}\r\n{}", answers.len(), answers.concat())
        })
    }

    /// Takes `cost` units, or gives the answer that there are too few.
    fn take(&mut self, cost: i64) -> Option<String> {
        let (clock, left, at_ms) = self.units.as_mut()?;
        let now_ms = clock.now() / 1_000_000;
        *left = UNITS_MAX.min(*left + i64::try_from(now_ms - *at_ms).expect("not that long"));
        *at_ms = now_ms;
        let missing = cost.min(UNITS_MAX) - *left;
        if missing <= 0 {
            *left -= cost;
            return None;
        }
        self.put_off += 1;
        assert!(self.put_off < 100_000, "nothing passes any more");
        Some(format!("-THROTTLED retry_in_ms={missing} reason=tenant_wcu\r\n"))
    }

    fn run(&mut self, database: &mut u8, words: &Words) -> String {
        let is_free = [&b"PING"[..], b"SELECT"].contains(&&words[0][..]);
        if !is_free && let Some(refusal) = self.take(1) {
            return refusal;
        }
        match (&words[0][..], &mut self.fence) {
            (b"GET", Some((published, _))) => {
                let answer = apply(published, &mut self.changes, database, words);
                self.repair();
                answer
            }
            (b"GET" | b"PING" | b"SELECT", _) => apply(&mut self.rows, &mut self.changes, database, words),
            _ => self.write(database, |state, database| apply(&mut state.rows, &mut state.changes, database, words)),
        }
    }

    /// Counts a request while the log has failed; behind the last of them the log is replaced.
    fn repair(&mut self) {
        if let Some((_, left)) = &mut self.fence {
            *left -= 1;
            if *left == 0 {
                self.fence = None;
            }
        }
    }

    /// Does a write, unless the log has failed or fails at it.
    fn write(&mut self, database: &mut u8, now: impl FnOnce(&mut Self, &mut u8) -> String) -> String {
        if self.fence.is_some() {
            self.repair();
            return DISK_FAILED.to_owned();
        }
        match &mut self.failure {
            Some((0, failure)) => {
                let LogFailure { is_done, refusals } = *failure;
                self.failure = None;
                let published = self.rows.clone();
                if is_done {
                    now(self, database);
                }
                self.fence = (refusals > 0).then_some((published, refusals));
                return DISK_FAILED.to_owned();
            }
            Some((writes, _)) => *writes -= 1,
            None => {}
        }
        now(self, database)
    }
}

/// Does a command, to a tenant or to a model; the few commands in use have one key, or none.
pub(super) fn apply(
    rows: &mut Rows,
    changes: &mut BTreeMap<(u8, Vec<u8>), u64>,
    database: &mut u8,
    words: &Words,
) -> String {
    let name = String::from_utf8_lossy(&words[0]).to_uppercase();
    let number = |at: usize| -> u8 { String::from_utf8_lossy(&words[at]).parse().expect("a database") };
    let mut touch = |row: &(u8, Vec<u8>)| *changes.entry(row.clone()).or_default() += 1;
    let row = || (*database, words[1].clone());
    match name.as_str() {
        "PING" => return "+PONG\r\n".to_owned(),
        "SELECT" => *database = number(1),
        "GET" => {
            return match rows.get(&row()) {
                Some(value) => format!("${}\r\n{}\r\n", value.len(), String::from_utf8_lossy(value)),
                None => "$-1\r\n".to_owned(),
            };
        }
        "SET" | "MSET" => {
            for pair in words[1..].chunks(2) {
                let row = (*database, pair[0].clone());
                touch(&row);
                rows.insert(row, pair[1].clone());
            }
        }
        "INCR" => {
            touch(&row());
            let value = rows.entry(row()).or_insert_with(|| b"0".to_vec());
            let next: u64 = String::from_utf8_lossy(value).parse::<u64>().expect("a number") + 1;
            *value = next.to_string().into_bytes();
        }
        "EVAL" if words[1] == b"fail" => return "-OOM command not allowed\r\n".to_owned(),
        // A script that counts up the key behind its number of keys, which is 0.
        "EVAL" => {
            let row = (*database, words[3].clone());
            touch(&row);
            let count = rows.entry(row).or_insert_with(|| b"0".to_vec());
            let next: u64 = String::from_utf8_lossy(count).parse::<u64>().expect("a number") + 1;
            *count = next.to_string().into_bytes();
        }
        // The code of a library is its name.
        "FUNCTION" => {
            let row = (0, [b"library:", words[words.len() - 1].as_slice()].concat());
            match (&words[1][..], rows.contains_key(&row)) {
                (b"LOAD", true) if words.len() == 3 => return "-ERR Library already exists\r\n".to_owned(),
                (b"DELETE", false) => return "-ERR Library not found\r\n".to_owned(),
                (b"LOAD", _) => drop(rows.insert(row, b"code".to_vec())),
                _ => drop(rows.remove(&row)),
            }
        }
        "APPEND" => {
            touch(&row());
            rows.entry(row()).or_default().extend_from_slice(&words[2]);
        }
        "DEL" => words[1..].iter().for_each(|key| {
            let row = (*database, key.clone());
            touch(&row);
            rows.remove(&row);
        }),
        "FLUSHDB" => rows.retain(|row, _| {
            let stays = row.0 != *database;
            if !stays {
                touch(row);
            }
            stays
        }),
        "SWAPDB" => {
            let (one, other) = (number(1), number(2));
            let swapped = |at: u8| match at {
                at if at == one => other,
                at if at == other => one,
                at => at,
            };
            rows.keys().filter(|row| swapped(row.0) != row.0).for_each(|row| {
                touch(row);
                touch(&(swapped(row.0), row.1.clone()));
            });
            *rows = std::mem::take(rows).into_iter().map(|((at, key), value)| ((swapped(at), key), value)).collect();
        }
        _ => panic!("{name} is not asked for"),
    }
    "+OK\r\n".to_owned()
}
