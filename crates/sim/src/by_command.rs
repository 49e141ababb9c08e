//! A node whose rows are written by commands: every value of a workload becomes a row of some type, cut into fields,
//! members, values or entries, and a batch becomes one transaction of many commands.
//!
//! So all runs that know keys and values also try what commands make of rows: their counts, orders, deadlines and
//! groups after power cuts and faults, and that of a transaction there is all or nothing. A value decides what becomes
//! of the row: which type it has, and whether the one that is there is changed or ends. A read asks by commands again,
//! and every way to ask must give the same. Before a node is opened, its files are checked off line as `weir check`
//! does: each head against its parts, and the agenda of fields that expire.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use weir_command::reply::Protocol;
use weir_command::{Call, Context, Draft, Headless, Request, Rows, Transaction, Waiting, run, table};
use weir_io::{BoxFuture, Clock, Error, ErrorKind, Result, Rng, Yield};
use weir_model::engine::Range;
use weir_model::{Batch, Change, StoredKey, VALUE_BYTES_MAX};
use weir_node::{NodeConfig, Partition};

use crate::model::Visible;
use crate::node_store::{DIR, NodeStore, placed};
use crate::span::Span;
use crate::store::{Sent, Store, World};

/// The database that the rows are in.
const DATABASE: u8 = 0;
/// The one where every transaction leaves a mark: none is empty.
const MARKS: u8 = 1;
const MARK: &[u8] = b"transactions";
/// What a row is called for a moment, while it is renamed or copied.
const ELSEWHERE: &[u8] = b"\xff\xffelsewhere";
/// A field whose value is its deadline. It says nothing of the row's value.
const DECOY: &[u8] = b"decoy";
/// No run lives so long, in milliseconds.
const FAR_MS: u64 = 1_000_000_000;
/// Bytes of a value that make a part: long values have some hundred, so that rows are spread.
const PART_BYTES: usize = 13;
/// Keys that are read at once.
const PAGE_KEYS: usize = 100;

/// See the module.
pub struct ByCommand {
    store: Arc<NodeStore>,
    clock: Arc<dyn Clock>,
}

/// What a value is kept as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    String,
    Hash,
    /// Some of its fields expire.
    MortalHash,
    List,
    Set,
    SortedSet,
    Stream,
}

impl Family {
    fn of(value: &[u8]) -> Self {
        match value.len() % 8 {
            0 => Family::String,
            1 => Family::Hash,
            2 | 3 => Family::MortalHash,
            4 => Family::List,
            5 => Family::Set,
            6 => Family::SortedSet,
            _ => Family::Stream,
        }
    }

    /// What `TYPE` says.
    fn name(self) -> &'static str {
        match self {
            Family::String => "string",
            Family::Hash | Family::MortalHash => "hash",
            Family::List => "list",
            Family::Set => "set",
            Family::SortedSet => "zset",
            Family::Stream => "stream",
        }
    }
}

/// Words of a command.
type Words = Vec<Vec<u8>>;

fn words(line: &str, key: &[u8]) -> Words {
    line.split(' ').map(|word| if word == "K" { key.to_vec() } else { word.as_bytes().to_vec() }).collect()
}

/// The strings and numbers of an answer, in their order.
fn elements(answer: &[u8]) -> Words {
    let (mut rest, mut found) = (answer, Vec::new());
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let (line, behind) = (&rest[..end], &rest[end + 2..]);
        let number = || std::str::from_utf8(&line[1..]).ok().and_then(|text| text.parse::<usize>().ok());
        match (line.first(), number()) {
            (Some(b'$'), Some(len)) if behind.len() >= len + 2 => {
                found.push(behind[..len].to_vec());
                rest = &behind[len + 2..];
                continue;
            }
            (Some(b'*'), _) => {}
            _ => found.push(line.get(1..).unwrap_or_default().to_vec()),
        }
        rest = behind;
    }
    found
}

/// Whether it looks as the id of an entry does.
fn is_id(word: &[u8]) -> bool {
    let digits = |word: &str| !word.is_empty() && word.len() < 19 && word.bytes().all(|byte| byte.is_ascii_digit());
    let ends = std::str::from_utf8(word).ok().and_then(|word| word.split_once('-'));
    ends.is_some_and(|(ms, number)| digits(ms) && digits(number))
}

/// What a command says that could not be run.
fn refused(answer: &[u8]) -> Error {
    let text = String::from_utf8_lossy(answer).into_owned();
    let kind = match &text {
        text if text.contains("damaged") => ErrorKind::Corruption,
        text if text.contains("no space") => ErrorKind::NoSpace,
        text if text.contains("being closed") => ErrorKind::Closed,
        _ => ErrorKind::Device,
    };
    Error::new(kind, "run", "a command", text)
}

fn number(word: &[u8]) -> i64 {
    std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).unwrap_or(i64::MIN)
}

fn parts_of(value: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    value.chunks(PART_BYTES).enumerate().map(|(at, part)| (at.to_string().into_bytes(), part.to_vec())).collect()
}

/// A part with its number in front: the member of a set.
fn member((at, part): &(Vec<u8>, Vec<u8>)) -> Vec<u8> {
    [&at[..], b":", part].concat()
}

/// A transaction that makes of rows what `batch` says.
struct Making {
    batch: Batch,
    now_ms: u64,
}

/// Commands that run one after the other, and what they want written.
struct Running<'r> {
    rows: &'r dyn Rows,
    now_ms: u64,
    draft: Draft,
}

impl Running<'_> {
    async fn ask(&mut self, database: u8, line: &Words) -> Result<Words> {
        let request = Request::new(database, self.now_ms, line.iter().map(|word| &word[..]));
        let args = request.args();
        let command = table::find(args.at(0)).expect("a command");
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(self.now_ms));
        let mut call = Call::new(database, self.now_ms, VALUE_BYTES_MAX);
        let context = Context::locked(self.rows, &mut host, &mut call, std::mem::take(&mut self.draft));
        let finished = run(command, context, args).await;
        self.draft = finished.draft;
        let answer = host.take_answer(&finished.outcome);
        match finished.outcome {
            Ok(()) => Ok(elements(&answer)),
            Err(_) => Err(refused(&answer)),
        }
    }

    async fn tell(&mut self, line: &Words) -> Result<()> {
        self.ask(DATABASE, line).await.map(drop)
    }

    async fn tell_of(&mut self, line: &str, key: &[u8], more: impl IntoIterator<Item = Vec<u8>>) -> Result<()> {
        let mut line = words(line, key);
        line.extend(more);
        self.tell(&line).await
    }

    /// Tells the command where there is something to tell.
    async fn tell_some(&mut self, line: &str, key: &[u8], more: Words) -> Result<()> {
        if more.is_empty() { Ok(()) } else { self.tell_of(line, key, more).await }
    }

    async fn put(&mut self, key: &[u8], value: &[u8], expire_at_ms: Option<u64>) -> Result<()> {
        let family = Family::of(value);
        let present = self.ask(DATABASE, &words("TYPE K", key)).await?;
        let is_kept = present[0] == family.name().as_bytes() && !value.len().is_multiple_of(3);
        if !is_kept {
            self.tell(&words("DEL K", key)).await?;
        }
        let parts = parts_of(value);
        match family {
            Family::String => self.tell_of("SET K", key, [value.to_vec()]).await?,
            Family::Hash | Family::MortalHash => self.put_hash(key, &parts, expire_at_ms, family).await?,
            Family::List => {
                let before = self.ask(DATABASE, &words("LLEN K", key)).await?;
                self.tell_of("RPUSH K", key, parts.iter().map(|(_, part)| part.clone())).await?;
                self.tell_of("LTRIM K", key, [before[0].clone(), b"-1".to_vec()]).await?;
            }
            Family::Set => {
                let mut before = self.ask(DATABASE, &words("SMEMBERS K", key)).await?;
                let members: Words = parts.iter().map(member).collect();
                before.retain(|old| !members.contains(old));
                self.tell_of("SADD K", key, members).await?;
                self.tell_some("SREM K", key, before).await?;
            }
            Family::SortedSet => {
                let mut before = self.ask(DATABASE, &words("ZRANGE K 0 -1", key)).await?;
                let members: Words = parts.iter().map(member).collect();
                before.retain(|old| !members.contains(old));
                // First in reverse, so that members that stay move.
                let reversed =
                    parts.iter().flat_map(|part| [format!("-{}", number(&part.0)).into_bytes(), member(part)]);
                self.tell_of("ZADD K", key, reversed).await?;
                self.tell_of("ZADD K", key, parts.iter().flat_map(|part| [part.0.clone(), member(part)])).await?;
                self.tell_some("ZREM K", key, before).await?;
            }
            Family::Stream => self.put_stream(key, &parts).await?,
        }
        if let Some(at) = expire_at_ms.filter(|_| family != Family::MortalHash) {
            self.tell_of("PEXPIREAT K", key, [at.to_string().into_bytes()]).await?;
        } else if expire_at_ms.is_none() && is_kept {
            self.tell(&words("PERSIST K", key)).await?;
        }
        self.move_about(key, value).await
    }

    async fn put_hash(
        &mut self,
        key: &[u8],
        parts: &[(Vec<u8>, Vec<u8>)],
        expire_at_ms: Option<u64>,
        family: Family,
    ) -> Result<()> {
        let mut before = self.ask(DATABASE, &words("HKEYS K", key)).await?;
        before.retain(|old| !parts.iter().any(|(at, _)| at == old));
        self.tell_of("HSET K", key, parts.iter().flat_map(|(at, part)| [at.clone(), part.clone()])).await?;
        self.tell_some("HDEL K", key, before).await?;
        if family == Family::Hash {
            return Ok(());
        }
        let deadline = |at: u64| at.to_string().into_bytes();
        let fields = |names: Words| {
            let count = names.len().to_string().into_bytes();
            [vec![b"FIELDS".to_vec(), count], names].concat()
        };
        match expire_at_ms {
            // The row goes with its last field.
            Some(at) => {
                let names = parts.iter().map(|(at, _)| at.clone()).collect();
                let line = [vec![deadline(at)], fields(names)].concat();
                self.tell(&words("PERSIST K", key)).await?;
                self.tell_of("HPEXPIREAT K", key, line).await
            }
            None => {
                let odd: Words = parts.iter().map(|(at, _)| at.clone()).filter(|at| number(at) % 2 == 1).collect();
                if !odd.is_empty() {
                    let line = [vec![deadline(self.now_ms + FAR_MS)], fields(odd)].concat();
                    self.tell_of("HPEXPIREAT K", key, line).await?;
                }
                let at = self.now_ms + 1 + parts.len() as u64 % 40;
                self.tell_of("HSET K", key, [DECOY.to_vec(), deadline(at)]).await?;
                let line = [vec![deadline(at)], fields(vec![DECOY.to_vec()])].concat();
                self.tell_of("HPEXPIREAT K", key, line).await
            }
        }
    }

    async fn put_stream(&mut self, key: &[u8], parts: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.tell(&words("XTRIM K MAXLEN 0", key)).await?;
        for (at, part) in parts {
            self.tell_of("XADD K *", key, [at.clone(), part.clone()]).await?;
        }
        // Groups whose consumers have some entries, of which some are acknowledged.
        let group = format!("g{}", parts.len() % 3);
        let known = self.ask(DATABASE, &words("XINFO GROUPS K", key)).await?;
        if !known.contains(&group.clone().into_bytes()) {
            self.tell(&words(&format!("XGROUP CREATE K {group} 0"), key)).await?;
        }
        let consumer = format!("c{}", parts.len() % 2);
        let read = words(&format!("XREADGROUP GROUP {group} {consumer} COUNT 5 STREAMS K >"), key);
        let read = self.ask(DATABASE, &read).await?;
        let ids = read.into_iter().filter(|word| is_id(word)).take(2).collect();
        self.tell_some(&format!("XACK K {group}"), key, ids).await
    }

    /// The row is renamed and comes back, or a copy takes its place.
    async fn move_about(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let to = |line: &str| {
            let mut line = words(line, key);
            line.iter_mut().filter(|word| *word == b"E").for_each(|word| *word = ELSEWHERE.to_vec());
            line
        };
        let exists = self.ask(DATABASE, &words("EXISTS K", key)).await?;
        if exists[0] == b"0" {
            return Ok(());
        }
        match value.len() % 7 {
            0 => {
                self.tell(&to("RENAME K E")).await?;
                self.tell(&to("RENAME E K")).await
            }
            1 => {
                self.tell(&to("COPY K E")).await?;
                self.tell(&to("DEL K")).await?;
                self.tell(&to("RENAME E K")).await
            }
            _ => Ok(()),
        }
    }
}

impl Transaction for Making {
    fn rows(&self) -> Vec<StoredKey> {
        let mut keys: Vec<&[u8]> = self.batch.as_ref().iter().map(|change| change.key()).collect();
        keys.push(ELSEWHERE);
        keys.sort_unstable();
        keys.dedup();
        let rows = keys.into_iter().map(|key| StoredKey::new(DATABASE, key));
        rows.chain([StoredKey::new(MARKS, MARK)]).collect()
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        Box::pin(async move {
            let mut running = Running { rows, now_ms: self.now_ms, draft: Draft::default() };
            running.ask(MARKS, &words("INCR K", MARK)).await?;
            for change in self.batch.as_ref().iter() {
                match change {
                    Change::Put { key, value, expire_at_ms } => running.put(key, value, expire_at_ms).await?,
                    Change::Delete { key } => running.tell(&words("DEL K", key)).await?,
                    Change::Head { .. } | Change::Cover { .. } => unreachable!("workloads know keys and values only"),
                }
            }
            Ok(running.draft)
        })
    }
}

/// Whoever reads.
#[derive(Clone)]
struct Reader {
    partition: Arc<Partition>,
    clock: Arc<dyn Clock>,
}

fn wrong(key: &[u8], what: &str) -> Error {
    Error::corruption("the partition", 0, format!("row {}: {what}", key.escape_ascii()))
}

/// The value whose parts these are, by their numbers.
fn joined(key: &[u8], parts: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<Vec<u8>> {
    let parts: BTreeMap<i64, Vec<u8>> = parts.map(|(at, part)| (number(&at), part)).collect();
    match parts.keys().copied().eq(0..parts.len() as i64) {
        true => Ok(parts.into_values().flatten().collect()),
        false => Err(wrong(key, "parts are missing")),
    }
}

impl Reader {
    async fn ask(&self, line: &str, key: &[u8]) -> Result<Words> {
        self.ask_words(&words(line, key)).await
    }

    async fn ask_words(&self, line: &Words) -> Result<Words> {
        let request = Request::new(DATABASE, self.clock.unix_ms(), line.iter().map(|word| &word[..]));
        let command = table::find(request.args().at(0)).expect("a command");
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
        let mut call = request.call(VALUE_BYTES_MAX);
        let (outcome, commit) = self.partition.execute(command, request.args(), &mut host, &mut call).await?;
        if let Some(commit) = commit {
            commit.await?;
        }
        let answer = host.take_answer(&outcome);
        if outcome.is_ok() { Ok(elements(&answer)) } else { Err(refused(&answer)) }
    }

    /// As many as `line` says there are.
    async fn counted(&self, line: &str, key: &[u8], found: usize) -> Result<()> {
        let told = self.ask(line, key).await?;
        let is_so = told.first().is_some_and(|told| number(told) == found as i64);
        if is_so { Ok(()) } else { Err(wrong(key, &format!("{line} does not say {found}"))) }
    }

    async fn row(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let kind = self.ask("TYPE K", key).await?;
        if kind[0] == b"none" {
            return Ok(None);
        }
        let mut ends = self.ask("PEXPIRETIME K", key).await?;
        if kind[0] == b"hash" {
            ends.extend(self.ask("HPEXPIRETIME K FIELDS 1 0", key).await?);
        }
        let value = self.value(key, &kind[0]).await;
        // What has expired while it was read may have been met in part.
        let now_ms = self.clock.unix_ms() as i64;
        if ends.iter().map(|end| number(end)).any(|end| (1..=now_ms).contains(&end)) {
            return Ok(None);
        }
        value.map(Some)
    }

    async fn value(&self, key: &[u8], kind: &[u8]) -> Result<Vec<u8>> {
        let pairs = |flat: Words| -> Vec<(Vec<u8>, Vec<u8>)> {
            flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        };
        let split = |members: Words| {
            members.into_iter().map(|member| {
                let colon = member.iter().position(|&byte| byte == b':').unwrap_or_default();
                (member[..colon].to_vec(), member[(colon + 1).min(member.len())..].to_vec())
            })
        };
        match kind {
            b"string" => Ok(self.ask("GET K", key).await?.pop().unwrap_or_default()),
            b"hash" => {
                let asked_ms = self.clock.unix_ms();
                let mut fields = pairs(self.ask("HGETALL K", key).await?);
                let late = fields.iter().find(|(name, at)| name == DECOY && number(at) <= asked_ms as i64);
                if late.is_some() {
                    return Err(wrong(key, "a field lives on behind its deadline"));
                }
                let counted = self.counted("HLEN K", key, fields.len()).await;
                // A field may have expired in between.
                if self.clock.unix_ms() == asked_ms {
                    counted?;
                }
                fields.retain(|(name, _)| name != DECOY);
                joined(key, fields.into_iter())
            }
            b"list" => {
                let values = self.ask("LRANGE K 0 -1", key).await?;
                self.counted("LLEN K", key, values.len()).await?;
                Ok(values.concat())
            }
            b"set" => {
                let members = self.ask("SMEMBERS K", key).await?;
                self.counted("SCARD K", key, members.len()).await?;
                joined(key, split(members))
            }
            b"zset" => {
                let scored = pairs(self.ask("ZRANGE K 0 -1 WITHSCORES", key).await?);
                self.counted("ZCARD K", key, scored.len()).await?;
                for (rank, (member, score)) in scored.iter().enumerate().step_by(1 + scored.len() / 5) {
                    let asked = self.ask_words(&vec![b"ZRANK".to_vec(), key.to_vec(), member.clone()]).await?;
                    if number(score) != rank as i64 || asked.first().map(|rank| number(rank)) != Some(rank as i64) {
                        return Err(wrong(key, &format!("the member with the rank {rank} has another one")));
                    }
                }
                joined(key, split(scored.into_iter().map(|(member, _)| member).collect()))
            }
            _ => {
                let entries = self.ask("XRANGE K - +", key).await?;
                self.counted("XLEN K", key, entries.len() / 3).await?;
                joined(key, entries.chunks_exact(3).map(|entry| (entry[1].clone(), entry[2].clone())))
            }
        }
    }

    async fn span(&self, span: Span) -> Result<Visible> {
        let (mut keys, mut next) = (Vec::new(), Some(vec![DATABASE]));
        while let Some(from) = next {
            let page = self.partition.page(&from, Some(&[DATABASE + 1]), PAGE_KEYS).await?;
            keys.extend(page.keys.into_iter().map(|key| key[1..].to_vec()));
            next = page.next;
        }
        let range = Range { from: span.from.clone(), to: span.to.clone(), reverse: false };
        keys.retain(|key| is_behind(&range.from, key) && !range.is_past(key));
        if span.reverse {
            keys.reverse();
        }
        let mut found = Visible::new();
        for key in keys {
            if found.len() == span.limit {
                break;
            }
            if key == ELSEWHERE {
                return Err(wrong(&key, "what a transaction does on the way is to be seen"));
            }
            if let Some(value) = self.row(&key).await? {
                found.push((key, value));
            }
        }
        Ok(found)
    }
}

fn is_behind(from: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match from {
        Bound::Unbounded => true,
        Bound::Included(from) => key >= &from[..],
        Bound::Excluded(from) => key > &from[..],
    }
}

impl ByCommand {
    fn reader(&self) -> Reader {
        Reader { partition: Arc::clone(self.store.partition()), clock: Arc::clone(&self.clock) }
    }
}

impl Store for ByCommand {
    type Options = NodeConfig;
    /// There are none: commands read what is there now.
    type Snapshot = ();

    async fn open(world: World, config: NodeConfig) -> Result<Arc<Self>> {
        // A directory that is not made yet, or cannot be read, is for the node to judge.
        if let Ok(found) = weir_node::check(&world.fs, Path::new(DIR), |_, _| ()).await {
            let problems = found.partitions.into_iter().flat_map(|partition| partition.problems);
            if let Some(problem) = problems.into_iter().find(is_of_rows) {
                return Err(problem);
            }
        }
        let clock = Arc::clone(&world.clock);
        Ok(Arc::new(Self { store: NodeStore::open(world, config).await?, clock }))
    }

    fn write(&self, batch: &Batch) -> Sent {
        let (partition, mut making) =
            (Arc::clone(self.store.partition()), Making { batch: batch.clone(), now_ms: self.clock.unix_ms() });
        placed(Box::pin(async move { Ok(partition.transact(&mut making).await?.expect("it leaves its mark")) }))
    }

    fn get(&self, key: &[u8]) -> BoxFuture<Result<Option<Vec<u8>>>> {
        let (reader, key) = (self.reader(), key.to_vec());
        Box::pin(async move { reader.row(&key).await })
    }

    fn get_at(&self, key: &[u8], (): &()) -> BoxFuture<Result<Option<Vec<u8>>>> {
        self.get(key)
    }

    fn scan(&self, span: &Span, _: Option<&()>) -> BoxFuture<Result<Visible>> {
        let (reader, span) = (self.reader(), span.clone());
        Box::pin(async move { reader.span(span).await })
    }

    fn snapshot(&self) -> Option<()> {
        None
    }

    fn seal(&self) {
        self.store.seal();
    }

    fn close(self: Arc<Self>) -> BoxFuture<Result<()>> {
        Arc::clone(&self.store).close()
    }
}

/// Whether it is about rows, and not about files.
fn is_of_rows(problem: &Error) -> bool {
    let text = problem.to_string();
    problem.kind() == ErrorKind::Corruption && ["row ", "life ", "the agenda "].iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        assert_eq!(elements(b"*2\r\n$3\r\na\r\n\r\n:7\r\n"), [b"a\r\n".to_vec(), b"7".to_vec()]);
        assert_eq!(elements(b"+none\r\n"), [b"none".to_vec()]);
    }
}
