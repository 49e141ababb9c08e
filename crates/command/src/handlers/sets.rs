//! Sets: members that occur once each.

use weir_model::parts::RowType;

use super::members::{self, signed_count};
use super::set_operations::Answer;
use crate::args::Args;
use crate::collection::{Collection, Member, room_to_choose};
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::number::parse_i64;
use crate::reply::Replies;
use crate::turn::end_turn;

/// How many members are gathered between two turns.
const PAGE_MEMBERS: usize = 500;

async fn set<'k>(cx: &mut Context<'_>, key: &'k [u8]) -> Outcome<Option<Collection<'k>>> {
    cx.collection(key, RowType::Set).await
}

async fn is_member(cx: &mut Context<'_>, set: Option<&Collection<'_>>, member: &[u8]) -> Outcome<bool> {
    match set {
        Some(set) => Ok(set.member_value(cx, member).await?.is_some()),
        None => Ok(false),
    }
}

pub async fn sadd(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut set = cx.collection_or_new(args.at(1), RowType::Set).await?;
    let before = set.len();
    for (index, member) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        set.add_member(cx, member).await?;
    }
    let new = set.len() - before;
    cx.save(&mut set)?;
    cx.replies().integer(new as i64);
    Ok(())
}

pub async fn srem(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(mut set) = set(cx, args.at(1)).await? else {
        cx.replies().integer(0);
        return Ok(());
    };
    let before = set.len();
    for (index, member) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        if let Some(member) = set.member(cx, member).await? {
            set.remove_member(cx, &member)?;
        }
    }
    let gone = before - set.len();
    cx.save(&mut set)?;
    cx.replies().integer(gone as i64);
    Ok(())
}

pub async fn sismember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = cx.value_of_member(args.at(1), RowType::Set, args.at(2)).await?;
    cx.replies().integer(i64::from(found.is_some()));
    Ok(())
}

pub async fn smismember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let set = set(cx, args.at(1)).await?;
    cx.replies().array(args.len() - 2);
    for (index, member) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        let is_there = is_member(cx, set.as_ref(), member).await?;
        cx.replies().integer(i64::from(is_there));
        cx.drain().await?;
    }
    Ok(())
}

pub async fn scard(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = cx.head(args.at(1), RowType::Set).await?.map_or(0, |(head, _)| head.count);
    cx.replies().integer(len as i64);
    Ok(())
}

/// Answers with all members of `set`; the caller has announced them.
async fn tell_all(cx: &mut Context<'_>, set: &Collection<'_>) -> Outcome {
    set.tell_members(cx, |replies: &mut Replies, member, _| replies.bulk(member)).await
}

/// All members of `set` as a complete answer: none of it is sent before the command has ended.
async fn gathered(cx: &mut Context<'_>, set: &Collection<'_>) -> Outcome<Answer> {
    let (mut answer, mut from) = (Answer::new(cx), Some(0));
    while let Some(place) = from {
        let page = set.members_from(cx, place, PAGE_MEMBERS).await?;
        page.members.iter().try_for_each(|member| answer.push(&member.name))?;
        from = page.next;
        if from.is_some() {
            cx.yields().now().await;
        }
    }
    Ok(answer)
}

pub async fn smembers(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match set(cx, args.at(1)).await? {
        None => cx.replies().set(0),
        // There are few members, and they are answered in order.
        Some(set) if set.is_of_numbers() => gathered(cx, &set).await?.tell(cx),
        Some(set) => {
            cx.replies().set(set.len() as usize);
            tell_all(cx, &set).await?;
        }
    }
    Ok(())
}

/// Random members: without a number, one member; with a number, that many different members; with a negative number,
/// that many members that may repeat.
pub async fn srandmember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(word) = args.get(2) else {
        let set = set(cx, args.at(1)).await?;
        let member = match &set {
            Some(set) => set.random_member(cx).await?,
            None => None,
        };
        tell_one(cx, member.as_ref());
        return Ok(());
    };
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = signed_count(word)?;
    let Some(set) = set(cx, args.at(1)).await?.filter(|_| count != 0) else {
        cx.replies().array(0);
        return Ok(());
    };
    if count.is_negative() {
        return tell_repeating(cx, &set, count.unsigned_abs()).await;
    }
    if count as u64 >= set.len() {
        cx.replies().array(set.len() as usize);
        return tell_all(cx, &set).await;
    }
    let mut room = room_to_choose(cx);
    let members = set.random_members(cx, count as u64, &mut room).await?;
    cx.replies().array(members.len());
    tell_several(cx, &members).await
}

fn tell_one(cx: &mut Context<'_>, member: Option<&Member>) {
    match member {
        Some(member) => cx.replies().bulk(&member.name),
        None => cx.replies().null(),
    }
}

async fn tell_several(cx: &mut Context<'_>, members: &[Member]) -> Outcome {
    for member in members {
        cx.replies().bulk(&member.name);
        cx.drain().await?;
    }
    Ok(())
}

/// Answers with `count` members, each of them random.
async fn tell_repeating(cx: &mut Context<'_>, set: &Collection<'_>, count: u64) -> Outcome {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    cx.replies().array(count);
    for index in 0..count {
        end_turn(cx.yields(), index).await;
        if let Some(member) = set.random_member(cx).await? {
            cx.replies().bulk(&member.name);
        }
        cx.drain().await?;
    }
    Ok(())
}

pub async fn spop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(word) = args.get(2) else { return spop_one(cx, args.at(1)).await };
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = parse_i64(word).and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(Error::new("ERR value is out of range, must be positive"))?;
    let Some(mut set) = set(cx, args.at(1)).await?.filter(|_| count != 0) else {
        cx.replies().set(0);
        return Ok(());
    };
    if count >= set.len() {
        let answer = gathered(cx, &set).await?;
        cx.delete(args.at(1))?;
        answer.tell(cx);
        return Ok(());
    }
    let mut room = room_to_choose(cx);
    let members = set.pop_members(cx, count, &mut room).await?;
    let mut answer = Answer::in_any_order(cx);
    for member in &members {
        answer.push(&member.name)?;
    }
    cx.save(&mut set)?;
    answer.tell(cx);
    Ok(())
}

async fn spop_one(cx: &mut Context<'_>, key: &[u8]) -> Outcome {
    let Some(mut set) = set(cx, key).await? else {
        cx.replies().null();
        return Ok(());
    };
    let mut room = room_to_choose(cx);
    let popped = set.pop_members(cx, 1, &mut room).await?;
    cx.save(&mut set)?;
    tell_one(cx, popped.first());
    Ok(())
}

pub async fn smove(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (from, to, member) = (args.at(1), args.at(2), args.at(3));
    // The second set is not looked at if the first does not exist.
    let Some(mut source) = set(cx, from).await? else {
        cx.replies().integer(0);
        return Ok(());
    };
    let mut target = cx.collection_or_new(to, RowType::Set).await?;
    let found = source.member(cx, member).await?;
    if let Some(found) = found.as_ref().filter(|_| from != to) {
        let is_new = target.member(cx, member).await?.is_none();
        source.remove_member(cx, found)?;
        cx.save(&mut source)?;
        if is_new {
            target.add_new_member(cx, member)?;
            cx.save(&mut target)?;
        }
    }
    cx.replies().integer(i64::from(found.is_some()));
    Ok(())
}

pub async fn sscan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    members::scan(cx, args, RowType::Set, 0, |_, _| {}).await
}
