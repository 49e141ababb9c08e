//! Commands that turn rows into what a batch of keys and values says.

use weir_command::reply::Protocol;
use weir_command::{Call, Context, Draft, Headless, Request, Rows, Transaction, Waiting, run, table};
use weir_io::{Result, Rng, Yield};
use weir_model::{Batch, Change, StoredKey, VALUE_BYTES_MAX};

use super::family::{Family, member, number, parts_of, place};
use super::words::{Words, elements, is_id, refused, words};
use super::{DATABASE, DECOY, ELSEWHERE, MARK, MARKS, SEEN, SEEN_MAX};

/// Longer than any run lives, in milliseconds.
const FAR_MS: u64 = 1_000_000_000;

/// A transaction that turns rows into what `batch` says.
pub(super) struct Making {
    pub(super) batch: Batch,
    pub(super) now_ms: u64,
}

/// Commands that run one after the other, and the changes that they want written.
pub(super) struct Running<'r> {
    pub(super) rows: &'r dyn Rows,
    pub(super) now_ms: u64,
    pub(super) draft: Draft,
}

impl Running<'_> {
    /// Runs a command and returns its answer.
    ///
    /// # Errors
    /// The command is refused.
    pub(super) async fn ask(&mut self, database: u8, line: &Words) -> Result<Words> {
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

    /// Runs the command if there are more words to give it.
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
                // First in reverse order, so that members that stay have to move.
                let reversed =
                    parts.iter().flat_map(|part| [format!("-{}", number(&part.0)).into_bytes(), member(part)]);
                self.tell_of("ZADD K", key, reversed).await?;
                self.tell_of("ZADD K", key, parts.iter().flat_map(|part| [part.0.clone(), member(part)])).await?;
                self.tell_some("ZREM K", key, before).await?;
            }
            Family::Places => {
                let mut before = self.ask(DATABASE, &words("ZRANGE K 0 -1", key)).await?;
                let members: Words = parts.iter().map(member).collect();
                before.retain(|old| !members.contains(old));
                let placed = parts.iter().flat_map(|part| {
                    let [longitude, latitude] = place(&part.0);
                    [longitude, latitude, member(part)]
                });
                self.tell_of("GEOADD K", key, placed).await?;
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

    /// Renames the row and brings it back, or puts a copy in its place.
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
        rows.chain([MARK, SEEN].map(|key| StoredKey::new(MARKS, key))).collect()
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        Box::pin(async move {
            let mut running = Running { rows, now_ms: self.now_ms, draft: Draft::default() };
            let number = running.ask(MARKS, &words("INCR K", MARK)).await?;
            if self::number(&number[0]) % SEEN_MAX == 0 {
                running.ask(MARKS, &words("DEL K", SEEN)).await?;
            }
            running.ask(MARKS, &[words("PFADD K", SEEN), number].concat()).await?;
            for change in self.batch.as_ref().iter() {
                match change {
                    Change::Put { key, value, expire_at_ms } => running.put(key, value, expire_at_ms).await?,
                    Change::Delete { key } => running.tell(&words("DEL K", key)).await?,
                    Change::Head { .. } | Change::Cover { .. } => unreachable!("workloads know keys and values only"),
                }
            }
            running.draft.settle(|_, _| {});
            Ok(running.draft)
        })
    }
}
