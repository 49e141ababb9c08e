//! `LCS`: the longest common subsequence of two values.
//!
//! The table of lengths is not kept. Going back through it needs only one bit for each cell: which way to go if the
//! bytes differ. So it takes a thirty-second of the memory that Redis needs; the limit and its error are the same.

use weir_io::Yield;
use weir_model::StringRow;

use super::integer;
use crate::args::Args;
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::in_hand::{InHand, letting_go};
use crate::keyword::upper;
use crate::reply::Replies;

const TOO_LARGE: Error = Error::new("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");

/// How many cells are computed between two turns: a fraction of a millisecond.
const TURN_CELLS: usize = 128 << 10;

#[derive(Default)]
struct Options {
    length: bool,
    ranges: bool,
    range_lengths: bool,
    range_length_min: u64,
}

impl Options {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = args.iter_from(3);
        while let Some(word) = words.next() {
            match upper(word).as_slice() {
                b"IDX" => options.ranges = true,
                b"LEN" => options.length = true,
                b"WITHMATCHLEN" => options.range_lengths = true,
                b"MINMATCHLEN" => {
                    options.range_length_min = integer(words.next().ok_or(SYNTAX)?)?.max(0) as u64;
                }
                _ => return Err(SYNTAX),
            }
        }
        if options.ranges && options.length {
            return Err(Error::new("ERR If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }
}

/// One bit for each pair of positions.
struct Directions {
    bits: Vec<u64>,
    columns: usize,
}

impl Directions {
    fn set(&mut self, row: usize, column: usize) {
        let index = row * self.columns + column;
        self.bits[index / 64] |= 1 << (index % 64);
    }

    fn is_up(&self, row: usize, column: usize) -> bool {
        let index = row * self.columns + column;
        self.bits[index / 64] >> (index % 64) & 1 == 1
    }
}

/// The memory that [`table`] takes for values of these lengths: no more than the limit allows.
fn table_bytes(a_len: usize, b_len: usize, keep: bool) -> usize {
    let bits = if keep { a_len * b_len } else { 0 };
    (b_len + 1) * size_of::<u32>() + bits.div_ceil(64) * size_of::<u64>()
}

/// The length of the subsequence, and, if `keep` is set, for each pair of positions whether to step back in `a` from
/// there.
async fn table(a: &[u8], b: &[u8], keep: bool, yields: Yield) -> (u32, Directions) {
    let cells = if keep { a.len() * b.len() } else { 0 };
    let mut directions = Directions { bits: vec![0; cells.div_ceil(64)], columns: b.len() };
    // Row `i` of the table, in place: `row[j + 1]` is of this row to the left of `j`, and of the row above from `j` on.
    let mut row = vec![0_u32; b.len() + 1];
    let mut done = 0;
    for (i, &byte) in a.iter().enumerate() {
        let mut diagonal = 0;
        for (j, &other) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if byte == other {
                diagonal + 1
            } else {
                if keep && above > row[j] {
                    directions.set(i, j);
                }
                above.max(row[j])
            };
            diagonal = above;
            done += 1;
            if done >= TURN_CELLS {
                done = 0;
                yields.now().await;
            }
        }
        done += 1;
        if done >= TURN_CELLS {
            done = 0;
            yields.now().await;
        }
    }
    (row[b.len()], directions)
}

/// A common piece of both values: its first and last position in each.
struct Match {
    a: (usize, usize),
    b: (usize, usize),
}

/// Goes back from the ends; gives the matches from the last to the first, and the subsequence.
async fn trace(a: &[u8], b: &[u8], directions: &Directions, yields: Yield) -> (Vec<Match>, Vec<u8>) {
    let (mut matches, mut common) = (Vec::<Match>::new(), Vec::new());
    let (mut i, mut j) = (a.len(), b.len());
    let mut done = 0;
    while i > 0 && j > 0 {
        done += 1;
        if done == TURN_CELLS {
            done = 0;
            yields.now().await;
        }
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(a[i]);
            match matches.last_mut() {
                Some(last) if last.a.0 == i + 1 && last.b.0 == j + 1 => (last.a.0, last.b.0) = (i, j),
                _ => matches.push(Match { a: (i, i), b: (j, j) }),
            }
        } else if directions.is_up(i - 1, j - 1) {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    common.reverse();
    (matches, common)
}

/// As [`Context::string`], with the error that Redis has for this command.
async fn string(cx: &mut Context<'_>, key: &[u8]) -> Outcome<Option<StringRow>> {
    const NOT_STRINGS: Error = Error::new("ERR The specified keys must contain string values");
    cx.get(key).await?.map(|row| row.into_string().ok_or(NOT_STRINGS)).transpose()
}

pub async fn lcs(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut first = InHand::default();
    first.push(string(cx, args.at(1)).await?);
    let second = letting_go(string(cx, args.at(2)), || first.own()).await?;
    let options = Options::parse(args)?;
    let a = first.iter().next().unwrap_or_default();
    let b = second.as_ref().map_or(&[][..], |row| &row.value[..]);
    let cells = (a.len() as u128 + 1) * (b.len() as u128 + 1);
    if cells * size_of::<u32>() as u128 > cx.value_bytes_max() as u128 {
        return Err(TOO_LARGE);
    }
    let mut room = cx.room(cx.value_bytes_max(), TOO_LARGE);
    room.take(table_bytes(a.len(), b.len(), !options.length))?;
    cx.computed((a.len() + 1).saturating_mul(b.len() + 1));
    let (length, directions) = table(a, b, !options.length, cx.yields()).await;
    if options.length {
        cx.replies().integer(i64::from(length));
        return Ok(());
    }
    let (matches, common) = trace(a, b, &directions, cx.yields()).await;
    if !options.ranges {
        cx.replies().bulk(&common);
        return Ok(());
    }
    let long = |found: &&Match| (found.a.1 - found.a.0 + 1) as u64 >= options.range_length_min;
    let matches: Vec<&Match> = matches.iter().filter(long).collect();
    let replies = cx.replies();
    replies.map(2);
    replies.bulk(b"matches");
    replies.array(matches.len());
    matches.iter().for_each(|found| reply_match(replies, found, options.range_lengths));
    replies.bulk(b"len");
    replies.integer(i64::from(length));
    Ok(())
}

fn reply_match(replies: &mut Replies, found: &Match, with_length: bool) {
    replies.array(2 + usize::from(with_length));
    for (first, last) in [found.a, found.b] {
        replies.array(2);
        replies.integer(first as i64);
        replies.integer(last as i64);
    }
    if with_length {
        replies.integer((found.a.1 - found.a.0 + 1) as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polled::turns;

    #[test]
    fn the_table_is_filled_in_turns() {
        let (a, b) = (b"abcd".repeat(200), b"abd".repeat(300));
        let (turns, (length, directions)) = turns(table(&a, &b, true, Yield::PLAIN));
        assert!(turns >= a.len() * b.len() / TURN_CELLS, "{turns}");
        // "abd" 200 times: every "c" is left out, and there are enough of the other letters.
        assert_eq!(length, 600);
        assert_eq!(directions.bits.len(), (a.len() * b.len()).div_ceil(64), "one bit for each pair");
    }

    #[test]
    fn s14_turns_end_whatever_the_lengths_are() {
        // Rows that end where a turn does, rows longer than a turn, and empty rows.
        for (rows, columns) in
            [(512, 1023), (4, TURN_CELLS - 1), (3, TURN_CELLS), (2, 3 * TURN_CELLS + 5), (TURN_CELLS * 3, 0)]
        {
            let (turns, _) = turns(table(&vec![1; rows], &vec![2; columns], false, Yield::PLAIN));
            assert!(turns >= rows * (columns + 1) / TURN_CELLS - 1, "{rows} rows of {columns}: {turns}");
        }
        // The way back goes along the diagonal: the sum of the positions stays odd.
        let nothing = Directions { bits: Vec::new(), columns: 0 };
        let (turns, (matches, _)) =
            turns(trace(&vec![1; 2 * TURN_CELLS + 1], &vec![1; 2 * TURN_CELLS], &nothing, Yield::PLAIN));
        assert!(turns >= 1 && matches.len() == 1, "{turns}");
    }
}
