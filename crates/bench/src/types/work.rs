//! The works: a command, the data that must be there before, and how many requests.

use crate::Result;
use crate::wire::{Client, Reply};

/// Stands for a value in the words of a command.
const DATA: &str = "__data__";
/// Stands for a number in the words of filling commands.
const NUMBER: &str = "{}";
/// Commands of a pipeline that fills.
const FILL_PIPELINE: u64 = 1000;

/// How often a filling command is sent, with the numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    /// Once for each number that the work draws.
    Keys,
    /// Once for each request, so that nothing runs out.
    Requests,
    /// This many times.
    Count(u32),
}

/// The data that must be there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fill {
    words: &'static str,
    times: Times,
}

/// A command of `redis-benchmark`, or one of our own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    words: &'static str,
    fill: Option<Fill>,
    /// Whether it writes: more is wanted of writes.
    pub writes: bool,
    /// Number of requests, relative to that of a cheap command.
    share: f64,
    /// Numbers to draw from, if they are fewer than in other works.
    keys: Option<u32>,
}

const fn read(name: &'static str, words: &'static str, share: f64) -> Work {
    Work { name, words, fill: None, writes: false, share, keys: None }
}

const fn write(name: &'static str, words: &'static str, share: f64) -> Work {
    Work { writes: true, ..read(name, words, share) }
}

impl Work {
    /// The tests of `redis-benchmark`, and others on larger rows.
    pub const ALL: [Work; 30] = [
        read("ping", "PING", 1.0),
        write("set", "SET key:__rand_int__ __data__", 1.0),
        read("get", "GET got:__rand_int__", 1.0).after("SET got:{} __data__", Times::Keys),
        write("incr", "INCR counter:__rand_int__", 1.0),
        write(
            "mset",
            "MSET key:__rand_int__ __data__ key:__rand_int__ __data__ key:__rand_int__ __data__ key:__rand_int__ __data__ \
             key:__rand_int__ __data__ key:__rand_int__ __data__ key:__rand_int__ __data__ key:__rand_int__ __data__ \
             key:__rand_int__ __data__ key:__rand_int__ __data__",
            0.2,
        ),
        write("lpush", "LPUSH lpushed __data__", 1.0),
        write("rpush", "RPUSH rpushed __data__", 1.0),
        write("lpop", "LPOP lpopped", 1.0).after("RPUSH lpopped __data__", Times::Requests),
        write("rpop", "RPOP rpopped", 1.0).after("RPUSH rpopped __data__", Times::Requests),
        read("lrange_100", "LRANGE l100 0 99", 0.4).after("RPUSH l100 __data__", Times::Count(1000)),
        read("lrange_300", "LRANGE l300 0 299", 0.15).after("RPUSH l300 __data__", Times::Count(1000)),
        read("lrange_500", "LRANGE l500 0 499", 0.1).after("RPUSH l500 __data__", Times::Count(1000)),
        read("lrange_600", "LRANGE l600 0 599", 0.1).after("RPUSH l600 __data__", Times::Count(1000)),
        write("sadd", "SADD sadded element:__rand_int__", 1.0),
        read("sismember", "SISMEMBER asked element:__rand_int__", 1.0).after("SADD asked element:{}", Times::Keys),
        write("spop", "SPOP popped", 1.0).after("SADD popped element:{}", Times::Requests),
        write("hset", "HSET hset field:__rand_int__ __data__", 1.0),
        read("hget", "HGET hgot field:__rand_int__", 1.0).after("HSET hgot field:{} __data__", Times::Keys),
        read("hgetall_10", "HGETALL ten:__rand_int__", 0.5).among(10_000).after(
            "HSET ten:{} f0 __data__ f1 __data__ f2 __data__ f3 __data__ f4 __data__ f5 __data__ f6 __data__ \
             f7 __data__ f8 __data__ f9 __data__",
            Times::Keys,
        ),
        write("hincrby", "HINCRBY counters field:__rand_int__ 1", 1.0),
        write("zadd", "ZADD zadded 0 element:__rand_int__", 1.0),
        write("zadd_large", "ZADD large __rand_int__ element:__rand_int__", 1.0)
            .after("ZADD large {} element:{}", Times::Keys),
        read("zrange_10", "ZRANGE ranged 50000 50009", 0.5).after("ZADD ranged {} element:{}", Times::Keys),
        read("zrangebyscore_10", "ZRANGEBYSCORE scores __rand_int__ +inf LIMIT 0 10", 0.5)
            .after("ZADD scores {} element:{}", Times::Keys),
        read("zrank", "ZRANK ranks element:__rand_int__", 1.0).after("ZADD ranks {} element:{}", Times::Keys),
        read("zscore", "ZSCORE scored element:__rand_int__", 1.0).after("ZADD scored {} element:{}", Times::Keys),
        write("zpopmin", "ZPOPMIN zpopped", 1.0).after("ZADD zpopped {} element:{}", Times::Requests),
        write("xadd", "XADD xadded * field __data__", 1.0),
        read("xread_10", "XREAD COUNT 10 STREAMS stream __rand_int__-0", 0.5)
            .after("XADD stream {}-1 field __data__", Times::Keys),
        read("xrange_10", "XRANGE stream2 __rand_int__-0 + COUNT 10", 0.5)
            .after("XADD stream2 {}-1 field __data__", Times::Keys),
    ];

    const fn after(self, words: &'static str, times: Times) -> Self {
        Self { fill: Some(Fill { words, times }), ..self }
    }

    const fn among(self, keys: u32) -> Self {
        Self { keys: Some(keys), ..self }
    }

    /// The work of that name.
    pub fn parse(name: &str) -> Result<Self> {
        let names = || Self::ALL.map(|work| work.name).join(", ");
        let found = Self::ALL.into_iter().find(|work| work.name == name);
        found.ok_or_else(|| format!("no work is called {name}; there are {}", names()).into())
    }

    /// Whether its requests take away what was filled, so that each run must fill anew.
    pub(super) fn is_used_up(&self) -> bool {
        self.fill.is_some_and(|fill| fill.times == Times::Requests)
    }

    /// The number of requests of this work, if a cheap command has `of`.
    pub(super) fn requests(&self, of: u32) -> u64 {
        ((f64::from(of) * self.share) as u64).max(1)
    }

    /// The numbers that this work draws from, if there are `of`.
    pub(super) fn keys(&self, of: u32) -> u32 {
        self.keys.map_or(of, |keys| keys.min(of))
    }

    /// Its command, word by word, with values of `value_bytes` bytes.
    pub(super) fn command(&self, value_bytes: usize) -> Vec<String> {
        words(self.words, value_bytes)
    }

    /// Fills the data that it needs for this many requests and keys.
    pub(super) fn fill(&self, client: &mut Client, requests: u64, keys: u32, value_bytes: usize) -> Result<()> {
        let Some(Fill { words: template, times }) = self.fill else { return Ok(()) };
        let template = words(template, value_bytes);
        let times = match times {
            Times::Keys => u64::from(keys),
            Times::Requests => requests,
            Times::Count(count) => u64::from(count),
        };
        for first in (0..times).step_by(FILL_PIPELINE as usize) {
            let end = times.min(first + FILL_PIPELINE);
            for number in first..end {
                let number = format!("{number:012}");
                let command: Vec<_> = template.iter().map(|word| word.replace(NUMBER, &number)).collect();
                client.push(&command.iter().map(String::as_bytes).collect::<Vec<_>>());
            }
            client.flush()?;
            for _ in first..end {
                if let Reply::Line(line) = client.read()?
                    && line.starts_with('-')
                {
                    return Err(format!("{}: what it needs was refused: {line}", self.name).into());
                }
            }
        }
        Ok(())
    }

    /// Sends one request, to see that it is not refused: `redis-benchmark` counts errors as replies.
    pub(super) fn check(&self, client: &mut Client, value_bytes: usize) -> Result<()> {
        let words: Vec<_> =
            self.command(value_bytes).iter().map(|word| word.replace("__rand_int__", "000000000007")).collect();
        let words: Vec<_> = words.iter().map(String::as_bytes).collect();
        client.call(&words).map(drop).map_err(|error| format!("{}: refused: {error}", self.name).into())
    }
}

fn words(text: &str, value_bytes: usize) -> Vec<String> {
    text.split_whitespace().map(|word| word.replace(DATA, &"x".repeat(value_bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_values_and_names_are_unique() {
        assert_eq!(Work::parse("lpush").expect("a work").command(3), ["LPUSH", "lpushed", "xxx"]);
        assert!(Work::parse("lpus").is_err());
        for work in Work::ALL {
            assert_eq!(Work::parse(work.name).expect("a work"), work, "two works have one name");
            assert_eq!(
                work.words.split_whitespace().next().map(str::to_uppercase).as_deref(),
                work.words.split(' ').next()
            );
        }
    }

    #[test]
    fn what_is_drawn_from_less_stays_within() {
        let tens = Work::parse("hgetall_10").expect("a work");
        assert_eq!((tens.keys(100_000), tens.keys(5), tens.requests(10)), (10_000, 5, 5));
        assert_eq!(Work::parse("mset").expect("a work").requests(1), 1);
    }
}
