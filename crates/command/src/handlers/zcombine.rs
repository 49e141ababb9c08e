//! Unions, intersections and differences of sorted sets. A plain set takes part as if all of its scores were 1.

use std::collections::BTreeMap;

use weir_model::parts::{RowType, score_of};

use super::zranges::{begin, sort, store, tell};
use super::{ONE_TURN_KEYS_MAX, integer};
use crate::args::Args;
use crate::collection::{AT_ONCE_BYTES_MAX, Collection, Member, Scored, TOO_MANY_AT_ONCE, weight};
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::float::parse_f64;
use crate::keyword::lower;
use crate::room::Room;
use crate::turn::end_turn;

const NOT_A_WEIGHT: Error = Error::new("ERR weight value is not a float");
const NEGATIVE_LIMIT: Error = Error::new("ERR LIMIT can't be negative");
const TOO_MANY_KEYS: Error = Error::new("ERR operations on sorted sets take at most 10000 keys at a time");

/// How many members are read, or answered, in one piece.
const PAGE_MEMBERS: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    Union,
    Inter,
    Diff,
    /// The number of members of an intersection.
    Card,
}

/// How the scores that a member has in several sets are combined.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            // The sum of plus and minus infinity counts as 0.
            Self::Sum => Some(a + b).filter(|sum| !sum.is_nan()).unwrap_or(0.0),
            Self::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Self::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// One of the sets.
struct Input<'k> {
    set: Option<Collection<'k>>,
    weight: f64,
}

impl Input<'_> {
    fn len(&self) -> u64 {
        self.set.as_ref().map_or(0, Collection::len)
    }

    /// The score of `member`, which is in this set, times the set's weight.
    fn score(&self, member: &Member) -> f64 {
        let is_plain = self.set.as_ref().is_some_and(|set| set.kind() == RowType::Set);
        let score = if is_plain { 1.0 } else { score_of(&member.value).unwrap_or_default() };
        self.weight * score
    }

    async fn find(&self, cx: &mut Context<'_>, name: &[u8]) -> Outcome<Option<f64>> {
        let Some(set) = &self.set else { return Ok(None) };
        Ok(set.member(cx, name).await?.map(|member| self.score(&member)))
    }

    /// Some members from the place `from` on, and the place to go on.
    async fn page(&self, cx: &mut Context<'_>, from: u32) -> Outcome<(Vec<Member>, Option<u32>)> {
        let Some(set) = &self.set else { return Ok((Vec::new(), None)) };
        let page = set.members_from(cx, from, PAGE_MEMBERS).await?;
        Ok((page.members, page.next))
    }
}

/// What a command asks for.
struct Query<'k> {
    combine: Combine,
    inputs: Vec<Input<'k>>,
    aggregate: Aggregate,
    with_scores: bool,
    /// If members are only counted, the number at which counting stops; 0 = count all.
    limit: u64,
}

impl<'k> Query<'k> {
    /// The query of the command called `name`, with the number of keys at word `at`. As in Redis, the rows are looked
    /// at before the options are.
    async fn parse(cx: &mut Context<'_>, args: Args<'k>, combine: Combine, at: usize, name: &str) -> Outcome<Self> {
        let count = integer(args.at(at))?;
        if count < 1 {
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(Error::bytes(text.into_bytes()));
        }
        let count = usize::try_from(count).ok().filter(|&count| count < args.len() - at).ok_or(SYNTAX)?;
        // The heads of all of them are held, and a small set is in its head.
        if count > ONE_TURN_KEYS_MAX {
            return Err(TOO_MANY_KEYS);
        }
        let mut inputs = Vec::with_capacity(count);
        cx.hold_moment(args.at(at + 1)).await?;
        for (index, key) in args.iter_from(at + 1).take(count).enumerate() {
            end_turn(cx.yields(), index).await;
            let set = cx.collection_of(key, &[RowType::SortedSet, RowType::Set]).await?;
            inputs.push(Input { set, weight: 1.0 });
        }
        let mut query = Self { combine, inputs, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        query.options(args, at + 1 + count, at > 1)?;
        Ok(query)
    }

    fn options(&mut self, args: Args<'_>, from: usize, is_stored: bool) -> Outcome {
        let has_weights = matches!(self.combine, Combine::Union | Combine::Inter);
        let mut words = args.iter_from(from);
        while let Some(word) = words.next() {
            match lower(word).as_slice() {
                b"weights" if has_weights && words.len() >= self.inputs.len() => {
                    for (input, word) in self.inputs.iter_mut().zip(&mut words) {
                        input.weight = parse_f64(word).ok_or(NOT_A_WEIGHT)?;
                    }
                }
                b"aggregate" if has_weights => {
                    self.aggregate = match lower(words.next().ok_or(SYNTAX)?).as_slice() {
                        b"sum" => Aggregate::Sum,
                        b"min" => Aggregate::Min,
                        b"max" => Aggregate::Max,
                        _ => return Err(SYNTAX),
                    };
                }
                b"withscores" if !is_stored && self.combine != Combine::Card => self.with_scores = true,
                b"limit" if self.combine == Combine::Card => {
                    let limit = integer(words.next().ok_or(SYNTAX)?).map_err(|_| NEGATIVE_LIMIT)?;
                    self.limit = u64::try_from(limit).map_err(|_| NEGATIVE_LIMIT)?;
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(())
    }

    /// The result, in no order.
    async fn run(mut self, cx: &mut Context<'_>, room: &mut Room) -> Outcome<Vec<Scored>> {
        if self.combine != Combine::Diff {
            // As Redis does. In another order, sums of more than two numbers may differ.
            self.inputs.sort_by_key(Input::len);
        }
        if self.combine == Combine::Union {
            return self.union(cx, room).await;
        }
        let mut found = Vec::new();
        self.sieve(cx, |member| {
            room.take(weight(&member.name))?;
            found.push(member);
            Ok(())
        })
        .await?;
        Ok(found)
    }

    async fn union(self, cx: &mut Context<'_>, room: &mut Room) -> Outcome<Vec<Scored>> {
        let (mut found, mut met) = (BTreeMap::<Vec<u8>, f64>::new(), 0);
        for input in &self.inputs {
            let mut left = Some(0);
            while let Some(from) = left {
                let (members, next) = input.page(cx, from).await?;
                left = next;
                met += members.len();
                for member in members {
                    let score = number(input.score(&member));
                    if let Some(known) = found.get_mut(&member.name) {
                        *known = self.aggregate.of(*known, score);
                        continue;
                    }
                    room.take(weight(&member.name))?;
                    found.insert(member.name, score);
                }
                cx.yields().now().await;
            }
        }
        cx.ordered(met);
        Ok(found.into_iter().map(|(name, score)| Scored { name, score }).collect())
    }

    /// Hands to `keep` those members of the first set that all others have, or for a difference those that none of them
    /// has; gives how many they are.
    async fn sieve(&self, cx: &mut Context<'_>, mut keep: impl FnMut(Scored) -> Outcome) -> Outcome<u64> {
        let mut count = 0;
        let Some((first, others)) = self.inputs.split_first() else { return Ok(count) };
        let mut left = Some(0);
        while let Some(from) = left {
            let (members, next) = first.page(cx, from).await?;
            left = next;
            for member in members {
                let Some(score) = self.passed(cx, first, others, &member).await? else { continue };
                keep(Scored { name: member.name, score })?;
                count += 1;
                if self.limit == count {
                    return Ok(count);
                }
            }
            cx.yields().now().await;
        }
        Ok(count)
    }

    /// The score of `member` in the result; `None` if it is not in the result.
    async fn passed(
        &self,
        cx: &mut Context<'_>,
        first: &Input<'_>,
        others: &[Input<'_>],
        member: &Member,
    ) -> Outcome<Option<f64>> {
        let mut score = number(first.score(member));
        for other in others {
            let found = other.find(cx, &member.name).await?;
            match found {
                Some(found) if self.combine != Combine::Diff => score = self.aggregate.of(score, found),
                None if self.combine == Combine::Diff => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(score))
    }
}

/// `score`, or 0 if it is not a number, as for a weight of 0 times an infinity.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

async fn answer(cx: &mut Context<'_>, args: Args<'_>, combine: Combine, name: &str) -> Outcome {
    let query = Query::parse(cx, args, combine, 1, name).await?;
    let with_scores = query.with_scores;
    let mut room = cx.room(AT_ONCE_BYTES_MAX, TOO_MANY_AT_ONCE);
    let members = query.run(cx, &mut room).await?;
    let members = sort(cx, members).await;
    begin(cx.replies(), members.len(), with_scores);
    for page in members.chunks(PAGE_MEMBERS) {
        tell(cx, page, with_scores);
        cx.drain().await?;
        cx.yields().now().await;
    }
    Ok(())
}

async fn answer_stored(cx: &mut Context<'_>, args: Args<'_>, combine: Combine, name: &str) -> Outcome {
    let query = Query::parse(cx, args, combine, 2, name).await?;
    let mut room = cx.room(AT_ONCE_BYTES_MAX, TOO_MANY_AT_ONCE);
    let members = query.run(cx, &mut room).await?;
    let members = sort(cx, members).await;
    store(cx, args.at(1), &members).await
}

pub async fn zunion(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(cx, args, Combine::Union, "zunion").await
}

pub async fn zinter(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(cx, args, Combine::Inter, "zinter").await
}

pub async fn zdiff(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(cx, args, Combine::Diff, "zdiff").await
}

pub async fn zintercard(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut query = Query::parse(cx, args, Combine::Card, 1, "zintercard").await?;
    // The members of the smallest set are the fewest to look up in the others.
    query.inputs.sort_by_key(Input::len);
    let count = query.sieve(cx, |_| Ok(())).await?;
    cx.replies().integer(count as i64);
    Ok(())
}

pub async fn zunionstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer_stored(cx, args, Combine::Union, "zunionstore").await
}

pub async fn zinterstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer_stored(cx, args, Combine::Inter, "zinterstore").await
}

pub async fn zdiffstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer_stored(cx, args, Combine::Diff, "zdiffstore").await
}
