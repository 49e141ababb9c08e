//! Sorted sets: members with scores.

use weir_model::parts::{RowType, score_of};

use super::members;
use super::members::signed_count;
use crate::args::Args;
use crate::collection::{Collection, Member, NOT_A_SCORE, Scored, place, room_to_choose, score_in};
use crate::context::Context;
use crate::error::{Error, NOT_A_FLOAT, Outcome, SYNTAX};
use crate::float::{is_whole, parse_f64, push_f64, push_kept};
use crate::keyword::lower;
use crate::reply::{Protocol, Replies};
use crate::turn::end_turn;

const NX_AND_XX: Error = Error::new("ERR XX and NX options at the same time are not compatible");
const GT_LT_AND_NX: Error = Error::new("ERR GT, LT, and/or NX options at the same time are not compatible");
const ONE_INCREMENT: Error = Error::new("ERR INCR option supports a single increment-element pair");
const OUT_OF_RANGE: Error = Error::new("ERR value is out of range");

pub(super) async fn zset<'k>(cx: &mut Context<'_>, key: &'k [u8]) -> Outcome<Option<Collection<'k>>> {
    cx.collection(key, RowType::SortedSet).await
}

/// The options of a `ZADD`.
#[derive(Default)]
pub(super) struct AddOptions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    ch: bool,
    incr: bool,
}

impl AddOptions {
    /// Reads those of the `known` options that begin at word 2; gives where they end.
    pub(super) fn parse(&mut self, args: Args<'_>, known: &[&[u8]]) -> usize {
        for (index, word) in args.iter_from(2).enumerate() {
            let word = lower(word);
            let flag = match word.as_slice() {
                word if !known.contains(&word) => return index + 2,
                b"nx" => &mut self.nx,
                b"xx" => &mut self.xx,
                b"gt" => &mut self.gt,
                b"lt" => &mut self.lt,
                b"ch" => &mut self.ch,
                b"incr" => &mut self.incr,
                _ => return index + 2,
            };
            *flag = true;
        }
        args.len()
    }

    /// Whether both `NX` and `XX` are given, which exclude each other.
    pub(super) fn are_exclusive(&self) -> bool {
        self.nx && self.xx
    }

    fn check(&self, pairs: usize) -> Outcome {
        if self.are_exclusive() {
            return Err(NX_AND_XX);
        }
        if self.nx && (self.gt || self.lt) || self.gt && self.lt {
            return Err(GT_LT_AND_NX);
        }
        if self.incr && pairs > 1 {
            return Err(ONE_INCREMENT);
        }
        Ok(())
    }

    /// The new score of a member that has the score `before` and is given `score`; `None` if it keeps its score.
    fn decide(&self, before: Option<f64>, score: f64) -> Outcome<Option<f64>> {
        let Some(before) = before else { return Ok(Some(score).filter(|_| !self.xx)) };
        if self.nx {
            return Ok(None);
        }
        let score = if self.incr { before + score } else { score };
        if score.is_nan() {
            return Err(NOT_A_SCORE);
        }
        let is_kept = self.lt && score >= before || self.gt && score <= before;
        Ok(Some(score).filter(|_| !is_kept))
    }
}

/// The options of a `ZADD`, in lower case.
const OPTIONS: [&[u8]; 6] = [b"nx", b"xx", b"gt", b"lt", b"ch", b"incr"];

async fn add(cx: &mut Context<'_>, args: Args<'_>, mut options: AddOptions) -> Outcome {
    let first = options.parse(args, &OPTIONS);
    let words = args.len() - first;
    if words == 0 || !words.is_multiple_of(2) {
        return Err(SYNTAX);
    }
    options.check(words / 2)?;
    let mut members = Vec::with_capacity(words / 2);
    for (index, (word, name)) in args.iter_from(first).step_by(2).zip(args.iter_from(first + 1).step_by(2)).enumerate()
    {
        end_turn(cx.yields(), index).await;
        let score = parse_f64(word).ok_or(NOT_A_FLOAT)?;
        cx.fractions(usize::from(!is_whole(score)));
        members.push((score, name));
    }
    add_all(cx, args.at(1), &options, members.into_iter()).await
}

/// Gives scores to `members` as the options say, and answers.
pub(super) async fn add_all<'a>(
    cx: &mut Context<'_>,
    key: &[u8],
    options: &AddOptions,
    members: impl Iterator<Item = (f64, &'a [u8])>,
) -> Outcome {
    let mut zset = cx.collection_or_new(key, RowType::SortedSet).await?;
    let (mut added, mut updated, mut last) = (0, 0, None);
    for (index, (given, name)) in members.enumerate() {
        end_turn(cx.yields(), index).await;
        let before = zset.score(cx, name).await?;
        last = options.decide(before, given)?;
        let Some(score) = last.filter(|score| before != Some(*score)) else { continue };
        zset.put_score(cx, before, name, score).await?;
        match before {
            Some(_) => updated += 1,
            None => added += 1,
        }
    }
    cx.save_sorted(&mut zset).await?;
    match last {
        Some(score) if options.incr => cx.tell_f64(score),
        None if options.incr => cx.replies().null(),
        _ => cx.replies().integer(added + if options.ch { updated } else { 0 }),
    }
    Ok(())
}

pub async fn zadd(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, args, AddOptions::default()).await
}

pub async fn zincrby(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, args, AddOptions { incr: true, ..AddOptions::default() }).await
}

async fn tell_score(cx: &mut Context<'_>, zset: Option<&Collection<'_>>, name: &[u8]) -> Outcome {
    let score = match zset {
        Some(zset) => zset.score(cx, name).await?,
        None => None,
    };
    tell_score_or_null(cx, score);
    Ok(())
}

fn tell_score_or_null(cx: &mut Context<'_>, score: Option<f64>) {
    match score {
        Some(score) => cx.tell_f64(score),
        None => cx.replies().null(),
    }
}

pub async fn zscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let value = cx.value_of_member(args.at(1), RowType::SortedSet, args.at(2)).await?;
    let score = value.map(|value| score_in(&value)).transpose()?;
    tell_score_or_null(cx, score);
    Ok(())
}

pub async fn zmscore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let zset = zset(cx, args.at(1)).await?;
    cx.replies().array(args.len() - 2);
    for (index, name) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        tell_score(cx, zset.as_ref(), name).await?;
        cx.drain().await?;
    }
    Ok(())
}

pub async fn zcard(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = cx.head(args.at(1), RowType::SortedSet).await?.map_or(0, |(head, _)| head.count);
    cx.replies().integer(len as i64);
    Ok(())
}

pub async fn zrem(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(mut zset) = zset(cx, args.at(1)).await? else {
        cx.replies().integer(0);
        return Ok(());
    };
    let before = zset.len();
    for (index, name) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        if let Some(score) = zset.score(cx, name).await? {
            zset.remove_scored(cx, &[Scored { name: name.into(), score }], None).await?;
        }
    }
    let gone = before - zset.len();
    cx.save_sorted(&mut zset).await?;
    cx.replies().integer(gone as i64);
    Ok(())
}

async fn rank_of(cx: &mut Context<'_>, key: &[u8], name: &[u8], is_from_end: bool) -> Outcome<Option<u64>> {
    let Some(zset) = zset(cx, key).await? else { return Ok(None) };
    let Some(score) = zset.score(cx, name).await? else { return Ok(None) };
    let before = zset.count_before(cx, &place(score, name)).await?;
    Ok(Some(if is_from_end { zset.len().saturating_sub(before + 1) } else { before }))
}

async fn rank(cx: &mut Context<'_>, args: Args<'_>, is_from_end: bool) -> Outcome {
    let (key, name) = (args.at(1), args.at(2));
    let before = cx.judge_behind(key);
    let mut rank = rank_of(cx, key, name, is_from_end).await;
    if !cx.was_one_moment(key, before) {
        rank = rank_of(cx, key, name, is_from_end).await;
    }
    match rank? {
        Some(rank) => cx.replies().integer(rank as i64),
        None => cx.replies().null(),
    }
    Ok(())
}

pub async fn zrank(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rank(cx, args, false).await
}

pub async fn zrevrank(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rank(cx, args, true).await
}

/// Random members: as `HRANDFIELD` for a hash.
pub async fn zrandmember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(word) = args.get(2) else {
        let member = match zset(cx, args.at(1)).await? {
            Some(zset) => zset.random_member(cx).await?,
            None => None,
        };
        match member {
            Some(member) => cx.replies().bulk(&member.name),
            None => cx.replies().null(),
        }
        return Ok(());
    };
    let count = signed_count(word)?;
    let with_scores = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(b"WITHSCORES") => true,
        Some(_) => return Err(SYNTAX),
    };
    if with_scores && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(OUT_OF_RANGE);
    }
    let Some(zset) = zset(cx, args.at(1)).await?.filter(|_| count != 0) else {
        cx.replies().array(0);
        return Ok(());
    };
    let is_paired = with_scores && cx.replies().protocol == Protocol::Resp3;
    let score = |member: &Member| score_of(&member.value).unwrap_or_default();
    let is_told = |member: &Member| with_scores && !is_whole(score(member));
    let tell = |replies: &mut Replies, member: &Member| {
        if is_paired {
            replies.array(2);
        }
        replies.bulk(&member.name);
        if with_scores {
            replies.double(score(member));
        }
    };
    let elements = |count: usize| if with_scores && !is_paired { count * 2 } else { count };
    if count > 0 {
        let mut room = room_to_choose(cx);
        let members = zset.random_members(cx, count as u64, &mut room).await?;
        cx.fractions(members.iter().filter(|member| is_told(member)).count());
        cx.replies().array(elements(members.len()));
        for member in &members {
            tell(cx.replies(), member);
            cx.drain().await?;
        }
        return Ok(());
    }
    let count = usize::try_from(count.unsigned_abs()).map_err(|_| OUT_OF_RANGE)?;
    cx.replies().array(elements(count));
    for index in 0..count {
        end_turn(cx.yields(), index).await;
        if let Some(member) = zset.random_member(cx).await? {
            cx.fractions(usize::from(is_told(&member)));
            tell(cx.replies(), &member);
        }
        cx.drain().await?;
    }
    Ok(())
}

/// Answers scores as Redis stores them: those of a small row with all digits.
pub async fn zscan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let tell = |replies: &mut Replies, member: &Member, zset: &Collection<'_>| {
        let (mut text, score) = (Vec::new(), score_of(&member.value).unwrap_or_default());
        if zset.is_large() {
            push_f64(&mut text, score)
        } else {
            push_kept(&mut text, score)
        }
        replies.bulk(&text);
    };
    members::scan_of(cx, args, RowType::SortedSet, 1, tell).await
}
