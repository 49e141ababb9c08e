//! Asks for rows by commands, in every way that commands offer.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use weir_command::reply::Protocol;
use weir_command::{Draft, Headless, Page, Read, Request, Rows, Waiting, table};
use weir_io::{Clock, Error, Result, Rng, Yield};
use weir_model::VALUE_BYTES_MAX;
use weir_model::engine::Range;
use weir_node::Partition;

use super::family::{member, number, place};
use super::making::Running;
use super::words::{Words, elements, refused, words};
use super::{DATABASE, DECOY, ELSEWHERE, MARK, MARKS, SEEN, SEEN_MAX};
use crate::model::Visible;
use crate::span::Span;

/// Keys that are read together.
const PAGE_KEYS: usize = 100;
/// A database without a row.
struct Nothing;

impl Rows for Nothing {
    fn get<'a>(&'a self, _: u8, _: &'a [u8], _: u64) -> Read<'a> {
        Read::Ready(Ok(None))
    }

    fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, Result<Page>> {
        Box::pin(std::future::ready(Ok(Page::default())))
    }
}

/// Reads rows of a partition.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) partition: Arc<Partition>,
    pub(super) clock: Arc<dyn Clock>,
}

fn wrong(key: &[u8], what: &str) -> Error {
    Error::corruption("the partition", 0, format!("row {}: {what}", key.escape_ascii()))
}

/// The value that `parts` make up, in the order of their numbers.
fn joined(key: &[u8], parts: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<Vec<u8>> {
    let parts: BTreeMap<i64, Vec<u8>> = parts.map(|(at, part)| (number(&at), part)).collect();
    match parts.keys().copied().eq(0..parts.len() as i64) {
        true => Ok(parts.into_values().flatten().collect()),
        false => Err(wrong(key, "parts are missing")),
    }
}

/// The members, each split into the number of its part and the part.
fn split(members: Words) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    members.into_iter().map(|member| {
        let colon = member.iter().position(|&byte| byte == b':').unwrap_or_default();
        (member[..colon].to_vec(), member[(colon + 1).min(member.len())..].to_vec())
    })
}

impl Reader {
    async fn ask(&self, line: &str, key: &[u8]) -> Result<Words> {
        self.ask_words(&words(line, key)).await
    }

    async fn ask_words(&self, line: &Words) -> Result<Words> {
        self.ask_in(DATABASE, line).await
    }

    async fn ask_in(&self, database: u8, line: &Words) -> Result<Words> {
        let request = Request::new(database, self.clock.unix_ms(), line.iter().map(|word| &word[..]));
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

    /// Checks that `line` says that there are `found`.
    async fn counted(&self, line: &str, key: &[u8], found: usize) -> Result<()> {
        let told = self.ask(line, key).await?;
        let is_so = told.first().is_some_and(|told| number(told) == found as i64);
        if is_so { Ok(()) } else { Err(wrong(key, &format!("{line} does not say {found}"))) }
    }

    /// The value of the row at `key`.
    ///
    /// # Errors
    /// The row cannot be read, or is not whole.
    pub(super) async fn row(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let kind = self.ask("TYPE K", key).await?;
        if kind[0] == b"none" {
            return Ok(None);
        }
        let mut ends = self.ask("PEXPIRETIME K", key).await?;
        if kind[0] == b"hash" {
            ends.extend(self.ask("HPEXPIRETIME K FIELDS 1 0", key).await?);
        }
        let value = self.value(key, &kind[0]).await;
        // A row that has expired while it was read may have been met in part.
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
            b"zset" if self.is_of_places(key).await? => self.places(key).await,
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

    /// Whether the members of a sorted set are places: then their scores are large.
    async fn is_of_places(&self, key: &[u8]) -> Result<bool> {
        let last = self.ask("ZRANGE K -1 -1 WITHSCORES", key).await?;
        Ok(last.get(1).is_some_and(|score| number(score) > i64::from(u32::MAX)))
    }

    async fn places(&self, key: &[u8]) -> Result<Vec<u8>> {
        let members = self.ask("ZRANGE K 0 -1", key).await?;
        self.counted("ZCARD K", key, members.len()).await?;
        let parts: Vec<_> = split(members).collect();
        let line = |name: &[u8]| [vec![name.to_vec(), key.to_vec()], parts.iter().map(member).collect()].concat();
        let found = self.ask_words(&line(b"GEOPOS")).await?;
        // Places are kept to a millionth of a degree.
        let degrees = |word: &[u8]| std::str::from_utf8(word).ok().and_then(|word| word.parse::<f64>().ok());
        let is_near = |found: &[u8], given: &[u8]| {
            degrees(found).zip(degrees(given)).is_some_and(|(found, given)| (found - given).abs() < 1e-5)
        };
        let given = parts.iter().flat_map(|part| place(&part.0));
        if found.len() != 2 * parts.len() || !found.iter().zip(given).all(|(found, given)| is_near(found, &given)) {
            return Err(wrong(key, "a member has another place"));
        }
        joined(key, parts.into_iter())
    }

    /// Checks that the HyperLogLog has seen the numbers of the last transactions, and equals one made anew from them.
    async fn look_at_marks(&self) -> Result<()> {
        let told = self.ask_in(MARKS, &words("GET K", MARK)).await?;
        let count = told.first().map_or(0, |count| number(count));
        let found = self.ask_in(MARKS, &words("GET K", SEEN)).await?;
        let mut running = Running { rows: &Nothing, now_ms: 1, draft: Draft::default() };
        let numbers = (count - count % SEEN_MAX).max(1)..=count;
        for number in numbers.map(|number| number.to_string().into_bytes()) {
            running.ask(MARKS, &[words("PFADD K", SEEN), vec![number]].concat()).await?;
        }
        let expected = running.ask(MARKS, &words("GET K", SEEN)).await?;
        if found == expected {
            Ok(())
        } else {
            Err(wrong(SEEN, &format!("it has not seen the transactions up to {count}")))
        }
    }

    /// The rows of `span`.
    ///
    /// # Errors
    /// The rows cannot be read, or are not whole.
    pub(super) async fn span(&self, span: Span) -> Result<Visible> {
        let (mut keys, mut next) = (Vec::new(), Some(vec![DATABASE]));
        while let Some(from) = next {
            let page = self.partition.page(&from, Some(&[DATABASE + 1]), PAGE_KEYS).await?;
            keys.extend(page.keys.into_iter().map(|key| key[1..].to_vec()));
            next = page.next;
        }
        self.look_at_marks().await?;
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
