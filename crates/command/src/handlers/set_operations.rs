//! Intersections, unions and differences of sets: `SINTER`, `SUNION`, `SDIFF` and their kin.
//!
//! The command goes through one set, a page at a time, and looks up each of its members in the others. So the memory
//! that it needs grows with the result, and not with the sets. A reply begins with the number of its members, so they
//! are gathered, up to [`RESULT_BYTES_MAX`].

use weir_model::parts::RowType;

use super::ONE_TURN_KEYS_MAX;
use crate::args::Args;
use crate::collection::{Collection, NUMBERS_MAX};
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::number::{parse_i64, push_i64};
use crate::reply::Replies;
use crate::room::Room;
use crate::turn::end_turn;

/// Most bytes of a result.
const RESULT_BYTES_MAX: usize = 64 << 20;
const TOO_LARGE: Error = Error::new("ERR the result has more than 64 MiB of members");
/// How many bytes a member that is to be stored takes beside its name.
const PART_BYTES: usize = 32;

const TOO_MANY_KEYS: Error = Error::new("ERR operations on sets take at most 10000 keys at a time");

/// How many members of the set are gone through between two turns; each of them is looked up in the others.
const PAGE_MEMBERS: usize = 100;

/// Members that are answered at once, after their number.
pub struct Answer {
    replies: Replies,
    count: usize,
    /// The members as numbers, as long as Redis would keep them as whole numbers: then they are answered in order.
    numbers: Option<Vec<i64>>,
    room: Room,
}

impl Answer {
    /// An answer without members.
    pub fn new(cx: &Context<'_>) -> Self {
        Self { numbers: Some(Vec::new()), ..Self::in_any_order(cx) }
    }

    /// An answer whose members are told in the order in which they come.
    pub fn in_any_order(cx: &Context<'_>) -> Self {
        Self::within(cx.room(RESULT_BYTES_MAX, TOO_LARGE))
    }

    fn within(room: Room) -> Self {
        Self { replies: Replies::default(), count: 0, numbers: None, room }
    }

    /// Adds a member.
    ///
    /// # Errors
    /// There are too many members.
    pub fn push(&mut self, member: &[u8]) -> Outcome {
        self.numbers = match (self.numbers.take(), parse_i64(member)) {
            (Some(mut numbers), Some(number)) if numbers.len() < NUMBERS_MAX => {
                numbers.push(number);
                Some(numbers)
            }
            _ => None,
        };
        let before = self.replies.len();
        self.replies.bulk(member);
        self.count += 1;
        self.room.take(self.replies.len() - before)
    }

    /// Writes the answer.
    pub fn tell(self, cx: &mut Context<'_>) {
        let replies = cx.replies();
        replies.set(self.count);
        let Some(mut numbers) = self.numbers else { return replies.append(self.replies) };
        numbers.sort_unstable();
        let mut text = Vec::with_capacity(20);
        for number in numbers {
            text.clear();
            push_i64(&mut text, number);
            replies.bulk(&text);
        }
    }
}

/// The names of members that are to be stored, one behind the other.
struct Names {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    room: Room,
}

impl Names {
    fn within(room: Room) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), room }
    }

    fn push(&mut self, name: &[u8]) -> Outcome {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
        self.room.take(name.len() + PART_BYTES)
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(&start, &end)| &self.bytes[start..end])
    }
}

/// What is asked of several sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// Members that are in all sets.
    Intersect,
    /// Members that are in any set.
    Unite,
    /// Members of the first set that are in no other.
    Subtract,
}

/// The sets of `keys`, in their order, all read at the same moment; `None` for a set that does not exist.
async fn sets<'k>(
    cx: &mut Context<'_>,
    keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
) -> Outcome<Vec<Option<Collection<'k>>>> {
    if keys.len() > ONE_TURN_KEYS_MAX {
        return Err(TOO_MANY_KEYS);
    }
    if let Some(first) = keys.clone().next().filter(|_| keys.len() > 1) {
        cx.hold_moment(first).await?;
    }
    let mut sets = Vec::with_capacity(keys.len());
    for (index, key) in keys.enumerate() {
        end_turn(cx.yields(), index).await;
        sets.push(cx.collection(key, RowType::Set).await?);
    }
    Ok(sets)
}

impl Operation {
    /// Hands the members of the result to `take`, each once, in no order, until `take` wants no more.
    async fn each(
        self,
        cx: &mut Context<'_>,
        sets: &[Option<Collection<'_>>],
        mut take: impl FnMut(&[u8]) -> Outcome<bool>,
    ) -> Outcome {
        let mut there: Vec<&Collection<'_>> = sets.iter().flatten().collect();
        match self {
            Operation::Intersect => {
                // It goes through the smallest set, and looks in small sets before large ones.
                there.sort_by_key(|set| set.len());
                if there.len() == sets.len() {
                    self.filter(cx, there[0], &there[1..], &mut take).await?;
                }
            }
            Operation::Unite => {
                for (index, set) in there.iter().enumerate() {
                    // The first set that has a member reports it.
                    if !self.filter(cx, set, &there[..index], &mut take).await? {
                        break;
                    }
                }
            }
            Operation::Subtract => {
                if let Some(Some(first)) = sets.first() {
                    // Large sets are asked before small ones.
                    there[1..].sort_by_key(|set| std::cmp::Reverse(set.len()));
                    self.filter(cx, first, &there[1..], &mut take).await?;
                }
            }
        }
        Ok(())
    }

    /// Hands members of `set` to `take`: for an intersection those that all `others` have, otherwise those that none of
    /// them has. Gives whether `take` wants more.
    async fn filter(
        self,
        cx: &mut Context<'_>,
        set: &Collection<'_>,
        others: &[&Collection<'_>],
        take: &mut impl FnMut(&[u8]) -> Outcome<bool>,
    ) -> Outcome<bool> {
        let (mut from, mut asked) = (Some(0), 0);
        while let Some(place) = from {
            let page = set.members_from(cx, place, PAGE_MEMBERS).await?;
            for member in &page.members {
                let mut is_in = true;
                for other in others {
                    end_turn(cx.yields(), asked).await;
                    asked += 1;
                    let is_there = other.member(cx, &member.name).await?.is_some();
                    is_in = is_there == (self == Operation::Intersect);
                    if !is_in {
                        break;
                    }
                }
                if is_in && !take(&member.name)? {
                    return Ok(false);
                }
            }
            from = page.next;
            if from.is_some() {
                cx.yields().now().await;
            }
        }
        Ok(true)
    }

    /// Answers with the result for the keys from word 1 on.
    async fn answer(self, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
        let sets = sets(cx, args.iter_from(1)).await?;
        let mut answer = Answer::new(cx);
        self.each(cx, &sets, |member| answer.push(member).map(|()| true)).await?;
        answer.tell(cx);
        Ok(())
    }

    /// Stores the result for the keys from word 2 on at word 1, whatever was there. Answers with the number of its
    /// members.
    async fn store(self, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
        let sets = sets(cx, args.iter_from(2)).await?;
        let is_large = match sets.first() {
            Some(Some(first)) if self == Operation::Subtract && takes_out(first, &sets) => {
                !are_numbers(cx, first).await?
            }
            _ => false,
        };
        let mut names = Names::within(cx.room(RESULT_BYTES_MAX, TOO_LARGE));
        self.each(cx, &sets, |member| names.push(member).map(|()| true)).await?;
        let target = args.at(1);
        let is_there = cx.get(target).await?.is_some();
        drop(sets);
        let mut result = cx.new_collection(target, RowType::Set);
        for (index, name) in names.iter().enumerate() {
            end_turn(cx.yields(), index).await;
            result.add_new_member(cx, name)?;
        }
        if is_large {
            result.note_large();
        }
        if !result.is_empty() {
            cx.save(&mut result)?;
        } else if is_there {
            cx.delete(target)?;
        }
        cx.replies().integer(result.len() as i64);
        Ok(())
    }
}

/// Whether Redis would copy `first`, the first of `sets`, and take the members of the others out of the copy. It does
/// so if the first set is large compared to the others. The copy is not kept as whole numbers if the first set cannot
/// be, no matter what is left in it.
fn takes_out(first: &Collection<'_>, sets: &[Option<Collection<'_>>]) -> bool {
    let there = sets.iter().flatten();
    let by_asking = there.clone().fold(0, |work: u64, _| work.saturating_add(first.len())) / 2;
    by_asking > there.map(Collection::len).fold(0, u64::saturating_add)
}

/// Whether Redis would keep a copy of `set` as whole numbers.
async fn are_numbers(cx: &mut Context<'_>, set: &Collection<'_>) -> Outcome<bool> {
    if set.is_of_numbers() || set.len() > NUMBERS_MAX as u64 {
        return Ok(set.is_of_numbers());
    }
    let mut from = Some(0);
    while let Some(place) = from {
        let page = set.members_from(cx, place, PAGE_MEMBERS).await?;
        if page.members.iter().any(|member| parse_i64(&member.name).is_none()) {
            return Ok(false);
        }
        from = page.next;
    }
    Ok(true)
}

pub async fn sinter(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    Operation::Intersect.answer(cx, args).await
}

pub async fn sunion(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    Operation::Unite.answer(cx, args).await
}

pub async fn sdiff(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    Operation::Subtract.answer(cx, args).await
}

pub async fn sinterstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    Operation::Intersect.store(cx, args).await
}

pub async fn sunionstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    Operation::Unite.store(cx, args).await
}

pub async fn sdiffstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    Operation::Subtract.store(cx, args).await
}

pub async fn sintercard(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let keys = parse_i64(args.at(1)).and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0);
    let keys = keys.ok_or(Error::new("ERR numkeys should be greater than 0"))?;
    if keys > args.len() - 2 {
        return Err(Error::new("ERR Number of keys can't be greater than number of args"));
    }
    let (mut limit, mut words) = (0, args.iter_from(2 + keys));
    while let Some(word) = words.next() {
        let value = words.next().filter(|_| word.eq_ignore_ascii_case(b"LIMIT")).ok_or(SYNTAX)?;
        let number = parse_i64(value).and_then(|number| u64::try_from(number).ok());
        limit = number.ok_or(Error::new("ERR LIMIT can't be negative"))?;
    }
    let sets = sets(cx, args.iter_from(2).take(keys)).await?;
    let mut count = 0;
    let each = Operation::Intersect.each(cx, &sets, |_| {
        count += 1;
        Ok(count != limit)
    });
    each.await?;
    cx.replies().integer(count as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Room {
        Room::new(RESULT_BYTES_MAX, TOO_LARGE, None)
    }

    #[test]
    fn a_result_is_bounded() {
        let member = vec![b'm'; 1 << 20];
        let (mut answer, mut names) = (Answer::within(room()), Names::within(room()));
        // The overhead of each member counts, too: 64 of these members are more than 64 MiB.
        for _ in 0..63 {
            assert_eq!((answer.push(&member), names.push(&member)), (Ok(()), Ok(())));
        }
        assert_eq!((answer.push(&member), names.push(&member)), (Err(TOO_LARGE), Err(TOO_LARGE)));
        let mut names = Names::within(room());
        let pushed = std::iter::repeat_with(|| names.push(b"")).take_while(Result::is_ok).count();
        assert_eq!(pushed, RESULT_BYTES_MAX / PART_BYTES, "short members are not without end");
    }

    #[test]
    fn names_come_back_in_their_order() {
        let mut names = Names::within(room());
        let all: [&[u8]; 4] = [b"b", b"", b"aa", b""];
        all.iter().for_each(|name| names.push(name).expect("there is room"));
        assert!(names.iter().eq(all));
        assert_eq!(Names::within(room()).iter().count(), 0);
    }
}
