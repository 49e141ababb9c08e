//! Ranges of sorted sets: answered, counted, stored, removed.

use std::cmp::Ordering;

use weir_model::parts::RowType;

use super::integer;
use super::zrange::{By, Range};
use super::zsets::zset;
use crate::args::Args;
use crate::collection::{
    AT_ONCE_BYTES_MAX, Collection, Scored, ScoredPage, ScoredRef, Stretch, TOO_MANY_AT_ONCE, stored_one_by_one, weight,
};
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::keyword::lower;
use crate::reply::{Protocol, Replies};
use crate::turn::sort_in_turns;

const LIMIT_OF_RANKS: Error =
    Error::new("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
const SCORES_OF_NAMES: Error = Error::new("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

/// How many members are answered in one piece.
const PAGE_MEMBERS: usize = 500;

/// What a command asks for, and how it is answered.
struct Query<'a> {
    key: &'a [u8],
    range: Range<'a>,
    reverse: bool,
    with_scores: bool,
    /// How many members are skipped at first.
    offset: i64,
    /// How many members are taken; all if it is negative.
    limit: i64,
}

impl<'a> Query<'a> {
    /// The query whose key is word `at`. What the command's name does not say (`by`, `reverse`) may be among its
    /// options.
    fn parse(args: Args<'a>, at: usize, by: Option<By>, reverse: Option<bool>, may_have_scores: bool) -> Outcome<Self> {
        let (mut told_by, mut told_reverse, mut with_scores) = (by, reverse, false);
        let (mut offset, mut limit) = (0, -1);
        let mut words = args.iter_from(at + 3);
        while let Some(word) = words.next() {
            match lower(word).as_slice() {
                b"withscores" if may_have_scores => with_scores = true,
                b"limit" if words.len() >= 2 => {
                    offset = integer(words.next().ok_or(SYNTAX)?)?;
                    limit = integer(words.next().ok_or(SYNTAX)?)?;
                }
                b"rev" if told_reverse.is_none() => told_reverse = Some(true),
                b"bylex" if told_by.is_none() => told_by = Some(By::Name),
                b"byscore" if told_by.is_none() => told_by = Some(By::Score),
                _ => return Err(SYNTAX),
            }
        }
        let (by, reverse) = (told_by.unwrap_or(By::Rank), told_reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(LIMIT_OF_RANKS);
        }
        if with_scores && by == By::Name {
            return Err(SCORES_OF_NAMES);
        }
        if by == By::Rank {
            offset = 0;
        }
        let (min, max) = match reverse && by != By::Rank {
            true => (args.at(at + 2), args.at(at + 1)),
            false => (args.at(at + 1), args.at(at + 2)),
        };
        Ok(Self { key: args.at(at), range: Range::parse(by, min, max)?, reverse, with_scores, offset, limit })
    }

    /// Most members that are wanted.
    fn limit(&self) -> u64 {
        u64::try_from(self.limit).unwrap_or(u64::MAX)
    }

    /// The stretch of `zset` that is asked for, without the limit; `None` if it is empty.
    async fn stretch(&self, cx: &mut Context<'_>, zset: &Collection<'_>) -> Outcome<Option<Stretch>> {
        let stretch = self.range.stretch(cx, zset, self.reverse).await?;
        let Ok(offset) = u64::try_from(self.offset) else { return Ok(None) };
        if offset == 0 || self.limit == 0 {
            return Ok(Some(stretch).filter(|_| self.limit != 0));
        }
        let first = zset.count_before(cx, &stretch.from).await?;
        let count = zset.count_in(cx, &stretch).await?;
        if offset >= count {
            return Ok(None);
        }
        Ok(Some(match self.reverse {
            true => Stretch { to: zset.place_at(cx, first + count - offset).await?, ..stretch },
            false => Stretch { from: zset.place_at(cx, first + offset).await?.unwrap_or_default(), ..stretch },
        }))
    }

    /// The first members that the query asks for; `None` if it asks for nothing.
    async fn first_page(&self, cx: &mut Context<'_>) -> Outcome<Option<FirstPage<'a>>> {
        let Some(zset) = zset(cx, self.key).await? else { return Ok(None) };
        let Some(stretch) = self.stretch(cx, &zset).await? else { return Ok(None) };
        let (members, left) = zset.scored_in_place(cx, stretch, self.reverse, page_of(self.limit())).await?;
        Ok(Some((zset, members, left)))
    }

    /// The members that the query asks for by their ranks, in the order of the answer; `None` if they are many, or
    /// long.
    async fn few(&self, cx: &mut Context<'_>) -> Outcome<Option<ScoredPage>> {
        let Some(zset) = zset(cx, self.key).await? else { return Ok(Some(ScoredPage::default())) };
        let Some((first, end)) = self.range.ranks(zset.len(), self.reverse) else {
            return Ok(Some(ScoredPage::default()));
        };
        if end - first > PAGE_MEMBERS as u64 {
            // The row is looked up again, which counts once.
            cx.read_anew();
            return Ok(None);
        }
        let members = zset.ranked(cx, first, end).await?;
        if (members.len() as u64) < end - first {
            return Ok(None);
        }
        Ok(Some(if self.reverse { members.turned() } else { members }))
    }
}

/// A sorted set, with the first of the members that are asked for, and what is left of the stretch.
type FirstPage<'k> = (Collection<'k>, ScoredPage, Option<Stretch>);

/// Writes members to the answer, with their scores in the form that the protocol has.
pub(super) fn tell(cx: &mut Context<'_>, members: &[Scored], with_scores: bool) {
    for member in members {
        tell_one(cx, &member.name, member.score, with_scores);
    }
}

/// As [`tell`], for a page.
fn tell_page(cx: &mut Context<'_>, members: &ScoredPage, with_scores: bool) -> Outcome {
    for member in members.iter() {
        let ScoredRef { name, score } = member?;
        tell_one(cx, name, score, with_scores);
    }
    Ok(())
}

fn tell_one(cx: &mut Context<'_>, name: &[u8], score: f64, with_scores: bool) {
    if with_scores && cx.replies().protocol == Protocol::Resp3 {
        cx.replies().array(2);
    }
    cx.replies().bulk(name);
    if with_scores {
        cx.tell_f64(score);
    }
}

/// Begins an answer of `count` members.
pub(super) fn begin(replies: &mut Replies, count: usize, with_scores: bool) {
    replies.array(if with_scores && replies.protocol == Protocol::Resp2 { count * 2 } else { count });
}

/// How many members are read at a time if `missing` are missing.
fn page_of(missing: u64) -> usize {
    usize::try_from(missing).unwrap_or(usize::MAX).min(PAGE_MEMBERS)
}

async fn answer(cx: &mut Context<'_>, query: Query<'_>) -> Outcome {
    if let Range::Ranks(..) = query.range {
        let before = cx.judge_behind(query.key);
        let mut few = query.few(cx).await;
        if !cx.was_one_moment(query.key, before) {
            few = query.few(cx).await;
        }
        if let Some(members) = few? {
            begin(cx.replies(), members.len(), query.with_scores);
            return tell_page(cx, &members, query.with_scores);
        }
    }
    let before = cx.judge_behind(query.key);
    let mut first = query.first_page(cx).await;
    let goes_on = matches!(&first, Ok(Some((_, members, Some(_)))) if (members.len() as u64) < query.limit());
    if !cx.was_one_moment_so_far(query.key, before, goes_on).await? {
        first = query.first_page(cx).await;
    }
    let Some((zset, mut members, mut left)) = first? else {
        cx.replies().array(0);
        return Ok(());
    };
    let mut missing = query.limit();
    let mut count = members.len() as u64;
    if let Some(left) = left.as_ref().filter(|_| count < missing) {
        count = missing.min(count + zset.count_in(cx, left).await?);
    }
    begin(cx.replies(), count as usize, query.with_scores);
    loop {
        tell_page(cx, &members, query.with_scores)?;
        missing -= members.len() as u64;
        let Some(stretch) = left.filter(|_| missing > 0) else { return Ok(()) };
        cx.drain().await?;
        cx.yields().now().await;
        (members, left) = zset.scored_in_place(cx, stretch, query.reverse, page_of(missing)).await?;
    }
}

pub async fn zrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(cx, Query::parse(args, 1, None, None, true)?).await
}

pub async fn zrevrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(cx, Query::parse(args, 1, Some(By::Rank), Some(true), true)?).await
}

pub async fn zrangebyscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(cx, Query::parse(args, 1, Some(By::Score), Some(false), true)?).await
}

pub async fn zrevrangebyscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(cx, Query::parse(args, 1, Some(By::Score), Some(true), true)?).await
}

pub async fn zrangebylex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(cx, Query::parse(args, 1, Some(By::Name), Some(false), true)?).await
}

pub async fn zrevrangebylex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(cx, Query::parse(args, 1, Some(By::Name), Some(true), true)?).await
}

/// `members`, sorted in turns. Counts the comparisons.
pub(super) async fn sort(cx: &mut Context<'_>, members: Vec<Scored>) -> Vec<Scored> {
    let compare = |a: &Scored, b: &Scored| {
        let by_score = a.score.partial_cmp(&b.score).unwrap_or(Ordering::Equal);
        by_score.then_with(|| a.name.cmp(&b.name))
    };
    let (sorted, comparisons) = sort_in_turns(cx.yields(), members, compare).await;
    cx.compared(comparisons);
    sorted
}

/// Puts `members`, which ascend, at `key`, in the place of whatever is there; gives how many they are.
pub(super) async fn store(cx: &mut Context<'_>, key: &[u8], members: &[Scored]) -> Outcome {
    if members.is_empty() {
        if cx.get(key).await?.is_some() {
            cx.delete(key)?;
        }
    } else {
        let mut zset = cx.new_collection(key, RowType::SortedSet);
        zset.fill(cx, members).await?;
        cx.save(&mut zset)?;
    }
    cx.replies().integer(members.len() as i64);
    Ok(())
}

pub async fn zrangestore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let query = Query::parse(args, 2, None, None, false)?;
    let (mut found, mut room) = (Vec::<Scored>::new(), cx.room(AT_ONCE_BYTES_MAX, TOO_MANY_AT_ONCE));
    if let Some(zset) = zset(cx, query.key).await? {
        let mut left = query.stretch(cx, &zset).await?;
        while let Some(stretch) = left.take_if(|_| (found.len() as u64) < query.limit()) {
            let missing = usize::try_from(query.limit() - found.len() as u64).unwrap_or(usize::MAX);
            let (members, rest) = zset.scored_page(cx, stretch, query.reverse, missing).await?;
            room.take(members.iter().map(|member| weight(&member.name)).sum())?;
            found.extend(members);
            left = rest;
            cx.end_step(left.is_some() && (found.len() as u64) < query.limit()).await;
        }
    }
    stored_one_by_one(&mut found, matches!(query.range, Range::Ranks(..)));
    if query.reverse {
        found.reverse();
    }
    store(cx, args.at(1), &found).await
}

async fn count(cx: &mut Context<'_>, args: Args<'_>, by: By) -> Outcome {
    let range = Range::parse(by, args.at(2), args.at(3))?;
    let count = match zset(cx, args.at(1)).await? {
        Some(zset) => {
            let stretch = range.stretch(cx, &zset, false).await?;
            zset.count_in(cx, &stretch).await?
        }
        None => 0,
    };
    cx.replies().integer(count as i64);
    Ok(())
}

pub async fn zcount(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    count(cx, args, By::Score).await
}

pub async fn zlexcount(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    count(cx, args, By::Name).await
}

async fn remove(cx: &mut Context<'_>, args: Args<'_>, by: By) -> Outcome {
    let range = Range::parse(by, args.at(2), args.at(3))?;
    let Some(mut zset) = zset(cx, args.at(1)).await? else {
        cx.replies().integer(0);
        return Ok(());
    };
    let stretch = range.stretch(cx, &zset, false).await?;
    let count = zset.count_in(cx, &stretch).await?;
    if count == zset.len() {
        // However many members there are, their parts end with the row.
        cx.delete(args.at(1))?;
        cx.replies().integer(count as i64);
        return Ok(());
    }
    let (mut left, mut bytes) = (Some(stretch).filter(|_| count > 0), 0);
    while let Some(stretch) = left {
        let (members, rest) = zset.scored_page(cx, stretch, false, PAGE_MEMBERS).await?;
        bytes += members.iter().map(|member| weight(&member.name)).sum::<usize>();
        if bytes > AT_ONCE_BYTES_MAX {
            return Err(TOO_MANY_AT_ONCE);
        }
        zset.remove_scored(cx, &members, None).await?;
        // There may be very many members, so they are counted after each page.
        zset.count_some(cx).await?;
        left = rest;
        cx.end_step(left.is_some()).await;
    }
    cx.save_sorted(&mut zset).await?;
    cx.replies().integer(count as i64);
    Ok(())
}

pub async fn zremrangebyrank(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(cx, args, By::Rank).await
}

pub async fn zremrangebyscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(cx, args, By::Score).await
}

pub async fn zremrangebylex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(cx, args, By::Name).await
}

#[cfg(test)]
mod tests {
    use weir_io::{Rng, Yield};

    use super::*;
    use crate::context::Call;
    use crate::headless::Headless;
    use crate::polled::turns;
    use crate::rows::NoRows;
    use crate::turn::TURN_SORTED;

    #[test]
    fn s14_members_that_are_put_together_are_sorted_in_turns() {
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
        let mut call = Call::new(0, 1, 100);
        let mut cx = Context::reading(&NoRows, &mut host, &mut call);
        let members = 5 * TURN_SORTED;
        let member = |number: usize| Scored {
            // Every score twice.
            score: (number * 7 % members / 2) as f64,
            name: number.to_string().into_bytes(),
        };
        let (turns, sorted) = turns(sort(&mut cx, (0..members).map(member).collect()));
        assert!(turns >= members / TURN_SORTED, "{turns}");
        assert_eq!(sorted.len(), members);
        assert!(sorted.windows(2).all(|two| (two[0].score, &two[0].name) < (two[1].score, &two[1].name)));
    }
}
