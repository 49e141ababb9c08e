//! The records of a member that are in no table yet, and their places in the shared log.
//!
//! A record has two numbers: its *index* among the records of its member, and its *place* among all records of the
//! shared log. Consecutive records of a member that are consecutive in both numbers form a run. So a member that writes
//! alone takes the memory of one run, whatever it writes, and one whose records are scattered takes 32 bytes for each
//! record.

use std::collections::VecDeque;

use weir_model::LogIndex;

/// The index of a record among the records of all members, in the shared log.
pub(super) type Place = LogIndex;

#[derive(Clone, Copy, Debug)]
struct Run {
    index: LogIndex,
    place: Place,
    count: u64,
    /// The bytes that the records take in the log.
    bytes: u64,
}

impl Run {
    fn last_index(&self) -> LogIndex {
        self.index + self.count - 1
    }

    fn last_place(&self) -> Place {
        self.place + self.count - 1
    }

    /// The run without its first `count` records; `count` is less than its length. All records are taken to be of the
    /// same size.
    fn without_first(self, count: u64) -> Run {
        let bytes = self.bytes - self.bytes / self.count * count;
        Run { index: self.index + count, place: self.place + count, count: self.count - count, bytes }
    }

    /// The first `count` records of the run, at least one.
    fn only_first(self, count: u64) -> Run {
        Run { count, bytes: self.bytes / self.count * count, ..self }
    }
}

/// The unflushed records of a member, as runs. Indexes and places rise from run to run.
#[derive(Clone, Debug, Default)]
pub(super) struct Unflushed {
    runs: VecDeque<Run>,
}

impl Unflushed {
    /// The member has appended another record, which takes `bytes` in the log.
    pub fn push(&mut self, index: LogIndex, place: Place, bytes: u64) {
        match self.runs.back_mut() {
            Some(run) if run.last_index() + 1 == index && run.last_place() + 1 == place => {
                run.count += 1;
                run.bytes += bytes;
            }
            _ => self.runs.push_back(Run { index, place, count: 1, bytes }),
        }
    }

    /// Removes the records up to `index`: they are in tables.
    pub fn drop_through(&mut self, index: LogIndex) {
        while self.runs.front().is_some_and(|run| run.last_index() <= index) {
            self.runs.pop_front();
        }
        if let Some(run) = self.runs.front_mut()
            && run.index <= index
        {
            *run = run.without_first(index + 1 - run.index);
        }
    }

    /// Removes the records behind `place`: they are not in the log.
    pub fn drop_behind(&mut self, place: Place) {
        while self.runs.back().is_some_and(|run| run.place > place) {
            self.runs.pop_back();
        }
        if let Some(run) = self.runs.back_mut()
            && run.last_place() > place
        {
            *run = run.only_first(place + 1 - run.place);
        }
    }

    /// Keeps only the records in front of `index`.
    pub fn drop_from(&mut self, index: LogIndex) {
        while self.runs.back().is_some_and(|run| run.index >= index) {
            self.runs.pop_back();
        }
        if let Some(run) = self.runs.back_mut()
            && run.last_index() >= index
        {
            *run = run.only_first(index - run.index);
        }
    }

    /// The first index, and the last one before the first gap.
    pub fn first_stretch(&self) -> Option<(LogIndex, LogIndex)> {
        let (first, last) = (self.first_index()?, self.last_index()?);
        Some((first, self.hole().map_or(last, |hole| hole - 1)))
    }

    /// These records followed by those of `later`, which have later indexes and places.
    pub fn followed_by(mut self, later: Unflushed) -> Unflushed {
        self.runs.extend(later.runs);
        self
    }

    /// The number of records.
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn first_index(&self) -> Option<LogIndex> {
        self.runs.front().map(|run| run.index)
    }

    pub fn last_index(&self) -> Option<LogIndex> {
        self.runs.back().map(Run::last_index)
    }

    pub fn first_place(&self) -> Option<Place> {
        self.runs.front().map(|run| run.place)
    }

    pub fn last_place(&self) -> Option<Place> {
        self.runs.back().map(Run::last_place)
    }

    /// The place of record `index`.
    pub fn place_of(&self, index: LogIndex) -> Option<Place> {
        let behind = self.runs.partition_point(|run| run.index <= index);
        let run = self.runs.get(behind.checked_sub(1)?)?;
        (index <= run.last_index()).then(|| run.place + (index - run.index))
    }

    /// The last record at `place` or in front of it.
    pub fn index_at(&self, place: Place) -> Option<LogIndex> {
        let behind = self.runs.partition_point(|run| run.place <= place);
        let run = self.runs.get(behind.checked_sub(1)?)?;
        // An index may be larger than its place, if a log that was not synced has lost records that are in tables.
        Some(run.index + (place - run.place).min(run.count - 1))
    }

    /// The first index that is missing between the first record and the last.
    pub fn hole(&self) -> Option<LogIndex> {
        let mut runs = self.runs.iter().zip(self.runs.iter().skip(1));
        runs.find_map(|(run, next)| (run.last_index() + 1 != next.index).then(|| run.last_index() + 1))
    }

    /// About how many bytes the records take in the log.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        /// Appends a record this many places behind the one before.
        Push(u64),
        DropThrough(u64),
        DropBehind(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (1_u64..4).prop_map(Op::Push),
            1 => (0_u64..60).prop_map(Op::DropThrough),
            1 => (0_u64..120).prop_map(Op::DropBehind),
        ]
    }

    #[test]
    fn an_index_may_be_larger_than_its_place() {
        let mut unflushed = Unflushed::default();
        (0..3).for_each(|nth| unflushed.push(100 + nth, 1 + nth, 10));
        assert_eq!(unflushed.index_at(Place::MAX), Some(102));
        assert_eq!((unflushed.index_at(2), unflushed.index_at(0)), (Some(101), None));
    }

    proptest! {
        /// A plain list of all records would give the same answers.
        #[test]
        fn runs_answer_as_a_list_of_records(ops in prop::collection::vec(op(), 0..80)) {
            let mut list: Vec<(LogIndex, Place)> = Vec::new();
            let mut unflushed = Unflushed::default();
            let (mut index, mut place) = (0, 0);
            for op in ops {
                match op {
                    Op::Push(gap) => {
                        (index, place) = (index + 1, place + gap);
                        list.push((index, place));
                        unflushed.push(index, place, 10);
                    }
                    Op::DropThrough(through) => {
                        list.retain(|(index, _)| *index > through);
                        unflushed.drop_through(through);
                    }
                    Op::DropBehind(behind) => {
                        list.retain(|(_, place)| *place <= behind);
                        unflushed.drop_behind(behind);
                    }
                }
                prop_assert_eq!(unflushed.first_index(), list.first().map(|(index, _)| *index));
                prop_assert_eq!(unflushed.last_index(), list.last().map(|(index, _)| *index));
                prop_assert_eq!(unflushed.first_place(), list.first().map(|(_, place)| *place));
                prop_assert_eq!(unflushed.last_place(), list.last().map(|(_, place)| *place));
                prop_assert_eq!(unflushed.is_empty(), list.is_empty());
                prop_assert_eq!(unflushed.bytes(), 10 * list.len() as u64);
                prop_assert_eq!(unflushed.count(), list.len() as u64);
                let indexes: Vec<LogIndex> = list.iter().map(|(index, _)| *index).collect();
                let hole = indexes.windows(2).find(|pair| pair[0] + 1 != pair[1]).map(|pair| pair[0] + 1);
                prop_assert_eq!(unflushed.hole(), hole);
                for from in 0..=index + 1 {
                    let mut front = unflushed.clone();
                    front.drop_from(from);
                    let (count, last) = (indexes.partition_point(|index| *index < from), front.last_index());
                    prop_assert_eq!((front.count(), last), (count as u64, indexes[..count].last().copied()));
                }
                for at in 0..=place + 1 {
                    let stands = list.iter().rfind(|(_, place)| *place <= at).map(|(index, _)| *index);
                    prop_assert_eq!(unflushed.index_at(at), stands);
                    let place = list.iter().find(|(index, _)| *index == at).map(|(_, place)| *place);
                    prop_assert_eq!(unflushed.place_of(at), place);
                }
            }
        }
    }
}
