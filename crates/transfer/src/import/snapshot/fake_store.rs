//! A tenant in memory, over a socket, with strings, lists and streams, which refuses and breaks off as it is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_io::Clock;
use weir_model::parts::stream::{EntryId, PendingValue};
use weir_model::parts::{GroupShape, StreamShape};

use crate::address::Address;
use crate::import::partitions::Words;
use crate::resp::take_request;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Row {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
    Stream(StreamShape),
}

/// Values by key.
pub(super) type Rows = BTreeMap<Vec<u8>, Row>;

/// What the tenant does to its clients. The numbers are of one in how many commands and transactions of a key: 0 = of
/// none. The count of a key begins at a number of its own, and does not depend on what other connections do meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// They are put off.
    pub(super) put_off: u64,
    /// The link breaks behind them, without an answer.
    pub(super) break_behind: u64,
    /// The link breaks in front of them.
    pub(super) break_before: u64,
    /// They are done, and answered with an error of the disk.
    pub(super) fail_behind: u64,
    /// They are not done, because of the disk.
    pub(super) fail_before: u64,
    /// Only keys that begin with this meet any of these.
    pub(super) of_keys: &'static str,
    /// Transactions of more commands are always put off: they cost more than the tenant may save up.
    pub(super) commands_max: Option<usize>,
    /// Of a transaction no more commands are queued.
    pub(super) queued_max: Option<usize>,
    /// The login may not use transactions.
    pub(super) no_transactions: bool,
    /// The login may not use `MSET`.
    pub(super) no_mset: bool,
    /// The longest word. The link breaks when a longer one is announced.
    pub(super) word_bytes_max: Option<usize>,
}

/// Units that a tenant saves up: one comes in a millisecond, and a byte of a value costs one. A command that costs more
/// than there may be passes when all are there, and leaves a debt.
struct Units {
    clock: Arc<dyn Clock>,
    most: i64,
    left: i64,
    at_ms: u64,
}

impl Units {
    /// Takes `cost`, or says in how many milliseconds it may be taken.
    fn take(&mut self, cost: i64) -> Result<(), i64> {
        let now_ms = self.clock.now() / 1_000_000;
        self.left = self.most.min(self.left + i64::try_from(now_ms - self.at_ms).expect("not that long"));
        self.at_ms = now_ms;
        match cost.min(self.most) - self.left {
            missing @ 1.. => Err(missing),
            _ => {
                self.left -= cost;
                Ok(())
            }
        }
    }
}

struct State {
    rows: Rows,
    faults: Faults,
    units: Option<Units>,
    /// The number of the last command or transaction of each key.
    counts: BTreeMap<Vec<u8>, u64>,
    /// The errors that were answered, the first word of each.
    refusals: BTreeMap<String, u64>,
    /// How often a command of each name was done.
    done: BTreeMap<String, u64>,
}

/// The tenant of a test.
pub(super) struct FakeStore {
    pub(super) address: Address,
    state: Arc<Mutex<State>>,
}

/// What a connection has queued.
#[derive(Default)]
struct Queue {
    commands: Option<Vec<Words>>,
    is_spoiled: bool,
}

impl FakeStore {
    /// Starts a tenant without keys.
    pub(super) async fn start(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Address::plain(&listener.local_addr().expect("bound").to_string()).expect("an address");
        let (counts, refusals, done) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let state = State { rows: Rows::new(), faults, units: None, counts, refusals, done };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("a socket");
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, state }
    }

    /// Lets the tenant save up this many units, and refuse what costs more than is there.
    pub(super) fn limit(&self, clock: &Arc<dyn Clock>, most: i64) {
        let at_ms = clock.now() / 1_000_000;
        self.state.lock().units = Some(Units { clock: Arc::clone(clock), most, left: most, at_ms });
    }

    /// The tenant's data.
    pub(super) fn rows(&self) -> Rows {
        self.state.lock().rows.clone()
    }

    /// How often it answered with an error that begins with this word, or broke the link (`BREAK`).
    pub(super) fn refusals(&self, word: &str) -> u64 {
        self.state.lock().refusals.get(word).copied().unwrap_or(0)
    }

    /// How often a command of this name was done.
    pub(super) fn done(&self, name: &str) -> u64 {
        self.state.lock().done.get(name).copied().unwrap_or(0)
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let (mut received, mut queue) = (Vec::new(), Queue::default());
    loop {
        let (mut rest, mut answers, mut breaks) = (&received[..], String::new(), false);
        while !breaks && let Some(words) = take_request(&mut rest).expect("requests") {
            match state.lock().answer(&mut queue, words) {
                Some(answer) => answers += &answer,
                None => breaks = true,
            }
        }
        let taken = received.len() - rest.len();
        received.drain(..taken);
        let written = stream.write_all(answers.as_bytes()).await;
        if breaks || written.is_err() || stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

impl State {
    fn refuse(&mut self, error: &str) -> String {
        let word = error.split(' ').next().unwrap_or_default();
        *self.refusals.entry(word.to_owned()).or_default() += 1;
        format!("-{error}\r\n")
    }

    /// The answer to a command; `None` if the link breaks.
    fn answer(&mut self, queue: &mut Queue, words: Words) -> Option<String> {
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        if self.faults.word_bytes_max.is_some_and(|max| words.iter().any(|word| word.len() > max)) {
            self.refuse("BREAK");
            return None;
        }
        match (name.as_str(), &mut queue.commands) {
            ("EXEC", Some(_)) => match std::mem::take(queue) {
                Queue { is_spoiled: true, .. } => Some(self.refuse("EXECABORT Transaction discarded")),
                Queue { commands, .. } => self.admit(&commands.unwrap_or_default(), true),
            },
            ("EXEC", None) => Some(self.refuse("ERR EXEC without MULTI")),
            (_, Some(commands)) if self.faults.queued_max.is_some_and(|max| commands.len() >= max) => {
                queue.is_spoiled = true;
                Some(self.refuse("ERR the tenant's clients have queued too much"))
            }
            (_, Some(commands)) => {
                commands.push(words);
                Some("+QUEUED\r\n".to_owned())
            }
            ("MSET", None) if self.faults.no_mset => Some(self.refuse("NOPERM mset")),
            ("MULTI", None) if self.faults.no_transactions => Some(self.refuse("NOPERM multi")),
            ("MULTI", None) => {
                queue.commands = Some(Vec::new());
                Some("+OK\r\n".to_owned())
            }
            ("CLIENT", None) if words[1] == b"ID" => Some(":1\r\n".to_owned()),
            ("CONFIG", None) if self.faults.word_bytes_max.is_some() => {
                Some(format!("*2\r\n+proto-max-bulk-len\r\n+{}\r\n", self.faults.word_bytes_max.unwrap_or(0)))
            }
            ("CONFIG" | "RANDOMKEY", None) => Some("$-1\r\n".to_owned()),
            ("CLIENT" | "SELECT" | "PING", None) => Some("+OK\r\n".to_owned()),
            _ => self.admit(&[words], false),
        }
    }

    /// Does commands that write, or not, as the faults say.
    fn admit(&mut self, commands: &[Words], is_transaction: bool) -> Option<String> {
        let key = key_of(&commands[0]);
        let first = || key.iter().map(|&byte| u64::from(byte)).sum();
        let count = self.counts.entry(key.clone()).or_insert_with(first);
        *count += 1;
        let (count, faults) = (*count, self.faults.clone());
        // Spread, so that the same request is not met again and again.
        let spread = count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let is_met = key.starts_with(faults.of_keys.as_bytes());
        let is_due = |every: u64| is_met && every > 0 && spread.is_multiple_of(every);
        if is_due(faults.put_off) || faults.commands_max.is_some_and(|max| commands.len() > max) {
            return Some(self.refuse("THROTTLED retry_in_ms=5 reason=tenant_wcu"));
        }
        let cost_of = |words: &Words| match words[0] == b"MSET" {
            true => words[2..].iter().step_by(2).map(Vec::len).sum::<usize>(),
            false => words.get(2).map_or(1, Vec::len),
        };
        let cost: usize = commands.iter().map(cost_of).sum();
        let taken = self.units.as_mut().map_or(Ok(()), |units| units.take(i64::try_from(cost).expect("a small one")));
        if let Err(missing) = taken {
            let refusal = self.refuse(&format!("THROTTLED retry_in_ms={missing} reason=tenant_wcu"));
            assert!(self.refusals["THROTTLED"] < 5_000, "nothing passes any more");
            return Some(refusal);
        }
        if is_due(faults.break_before) {
            self.refuse("BREAK");
            return None;
        }
        const DISK: &str = "ERR storage: the disk failed, the server's log says how";
        if is_due(faults.fail_before) {
            return Some(self.refuse(DISK));
        }
        let answers: Vec<String> = commands.iter().map(|words| self.run(words)).collect();
        if is_due(faults.break_behind) {
            self.refuse("BREAK");
            return None;
        }
        if is_due(faults.fail_behind) {
            return Some(self.refuse(DISK));
        }
        let head = if is_transaction { format!("*{}\r\n", answers.len()) } else { String::new() };
        Some(head + &answers.concat())
    }

    /// The answer to a question about a key. A value is never dumped.
    fn told(&self, name: &str, key: &[u8]) -> Option<String> {
        let row = self.rows.get(key);
        Some(match (name, row) {
            ("TYPE", Some(Row::Text(_))) => "+string\r\n".to_owned(),
            ("TYPE", Some(Row::List(_))) => "+list\r\n".to_owned(),
            ("TYPE", None) => "+none\r\n".to_owned(),
            ("PEXPIRETIME", _) => format!(":{}\r\n", if row.is_some() { -1 } else { -2 }),
            ("STRLEN", Some(Row::Text(text))) => format!(":{}\r\n", text.len()),
            ("STRLEN", None) => ":0\r\n".to_owned(),
            ("LLEN", Some(Row::List(values))) => format!(":{}\r\n", values.len()),
            ("DUMP", Some(_)) => "-ERR the value is too large for DUMP\r\n".to_owned(),
            ("DUMP", None) => "$-1\r\n".to_owned(),
            _ => return None,
        })
    }

    /// Does a command.
    fn run(&mut self, words: &Words) -> String {
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        let key = key_of(words);
        if let Some(told) = self.told(&name, key) {
            return told;
        }
        *self.done.entry(name.clone()).or_default() += 1;
        let done = match name.as_str() {
            "DEL" => {
                self.rows.remove(key);
                Ok(())
            }
            "SET" => {
                self.rows.insert(key.clone(), Row::Text(words[2].clone()));
                Ok(())
            }
            "MSET" => {
                let pairs = words[1..].chunks_exact(2);
                self.rows.extend(pairs.map(|pair| (pair[0].clone(), Row::Text(pair[1].clone()))));
                Ok(())
            }
            "RPUSH" => match self.rows.entry(key.clone()).or_insert_with(|| Row::List(Vec::new())) {
                Row::List(values) => {
                    values.extend_from_slice(&words[2..]);
                    Ok(())
                }
                _ => Err("WRONGTYPE no list"),
            },
            "LTRIM" => match self.rows.get_mut(key) {
                Some(Row::List(values)) => {
                    assert_eq!(words[2], b"0");
                    values.truncate(1 + number(&words[3]) as usize);
                    Ok(())
                }
                None => Ok(()),
                Some(_) => Err("WRONGTYPE no list"),
            },
            "XADD" | "XSETID" | "XGROUP" | "XCLAIM" => {
                let row = match name.as_str() {
                    "XADD" => Some(self.rows.entry(key.clone()).or_insert_with(|| Row::Stream(StreamShape::default()))),
                    _ => self.rows.get_mut(key),
                };
                match row {
                    Some(Row::Stream(stream)) => change(stream, &name, words),
                    Some(_) => Err("WRONGTYPE no stream"),
                    None => Err("ERR no such key"),
                }
            }
            "FUNCTION" => Err("ERR there are no functions here"),
            _ => panic!("{name} is not asked for"),
        };
        match done {
            Ok(()) => "+OK\r\n".to_owned(),
            Err(error) => self.refuse(error),
        }
    }
}

fn key_of(words: &Words) -> &Vec<u8> {
    &words[if words[0] == b"XGROUP" { 2 } else { 1 }]
}

fn number(word: &[u8]) -> u64 {
    String::from_utf8_lossy(word).parse().expect("a number")
}

fn id(word: &[u8]) -> EntryId {
    let dash = word.iter().position(|&byte| byte == b'-').expect("an id");
    EntryId { ms: number(&word[..dash]), seq: number(&word[dash + 1..]) }
}

/// Does a command to a stream.
fn change(stream: &mut StreamShape, name: &str, words: &Words) -> Result<(), &'static str> {
    match name {
        "XADD" => {
            let is_trimmed = words[2] == b"MAXLEN";
            let at = if is_trimmed { 4 } else { 2 };
            let added = id(&words[at]);
            if added <= stream.last {
                return Err("ERR The ID specified in XADD is equal or smaller than the target stream top item");
            }
            (stream.last, stream.added) = (added, stream.added + 1);
            if !is_trimmed {
                stream.entries.insert(added, words[at + 1..].to_vec());
            }
        }
        "XSETID" => {
            (stream.last, stream.added, stream.max_deleted) = (id(&words[2]), number(&words[4]), id(&words[6]));
        }
        "XGROUP" if words[1] == b"CREATE" => {
            if stream.groups.contains_key(&words[3]) {
                return Err("BUSYGROUP Consumer Group name already exists");
            }
            let (delivered, read) = (id(&words[4]), Some(number(&words[6])));
            stream.groups.insert(words[3].clone(), GroupShape { delivered, read, ..GroupShape::default() });
        }
        "XGROUP" => {
            let group = stream.groups.get_mut(&words[3]).ok_or("NOGROUP")?;
            group.consumers.insert(words[4].clone(), 0);
        }
        _ => {
            let group = stream.groups.get_mut(&words[2]).ok_or("NOGROUP")?;
            let (delivered_ms, deliveries, consumer) = (number(&words[7]), number(&words[9]), words[3].clone());
            group.pending.insert(id(&words[5]), PendingValue { delivered_ms, deliveries, consumer });
        }
    }
    Ok(())
}
