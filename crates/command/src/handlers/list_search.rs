//! `LPOS`: the positions of an element in a list.

use super::integer;
use super::lists::list;
use crate::args::Args;
use crate::collection::Walk;
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::reply::Replies;

const RANK: Error = Error::new(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from \
     the end of the list",
);
const COUNT: Error = Error::new("ERR COUNT can't be negative");
const MAXLEN: Error = Error::new("ERR MAXLEN can't be negative");

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 32 << 20;
const TOO_MANY: Error = Error::new("ERR the element is met too often: ask for less with COUNT");

/// The words behind `LPOS key element`.
struct Options {
    /// The number of the first match that is answered.
    rank: u64,
    /// Searches from the last value to the first.
    reverse: bool,
    /// How many matches are answered; without this option only one, and not as an array.
    count: Option<u64>,
    /// How many values are looked at.
    values_max: u64,
}

impl Options {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut options = Self { rank: 1, reverse: false, count: None, values_max: u64::MAX };
        let positive = |word: &[u8], error| integer(word).ok().and_then(|n| u64::try_from(n).ok()).ok_or(error);
        // 0 = all.
        let limit = |number: u64| if number == 0 { u64::MAX } else { number };
        let mut words = args.iter_from(3);
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let value = words.next().ok_or(SYNTAX)?;
            if is("RANK") {
                let rank = integer(value)?;
                if rank == 0 {
                    return Err(RANK);
                }
                (options.rank, options.reverse) = (rank.unsigned_abs(), rank < 0);
            } else if is("COUNT") {
                options.count = Some(limit(positive(value, COUNT)?));
            } else if is("MAXLEN") {
                options.values_max = limit(positive(value, MAXLEN)?);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

pub async fn lpos(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Options { rank, reverse, count, values_max } = Options::parse(args)?;
    let Some(list) = list(cx, args.at(1)).await? else {
        match count {
            Some(_) => cx.replies().array(0),
            None => cx.replies().null(),
        }
        return Ok(());
    };
    let looked_at = values_max.min(list.len());
    let range = if reverse { list.len() - looked_at..list.len() } else { 0..looked_at };
    let mut walk = Walk::new(range, reverse);
    let (mut found, mut told, mut matches) = (Replies::default(), 0, 0);
    'search: while !walk.is_done() {
        let numbers = walk.numbers();
        for (index, value) in numbers.zip(list.some_values(cx, &mut walk).await?) {
            if value[..] != *args.at(2) {
                continue;
            }
            matches += 1;
            if matches >= rank {
                found.integer(index as i64);
                told += 1;
                if told == count.unwrap_or(1) {
                    break 'search;
                }
            }
        }
        if found.len() > ANSWER_BYTES_MAX {
            return Err(TOO_MANY);
        }
        cx.yields().now().await;
    }
    let replies = cx.replies();
    match count {
        Some(_) => replies.array(told as usize),
        None if told == 0 => replies.null(),
        None => {}
    }
    replies.append(found);
    Ok(())
}
