//! A tenant's partitions: which keys are together, and the mark of each partition, which says up to where it has
//! everything.
//!
//! A transaction of the tenant is of one partition. So a step of the source is done partition by partition, and each
//! has a mark of its own. After a break the marks may differ: the source is followed from the least of them on, and
//! each partition leaves out what its own mark covers.

use std::borrow::Cow;

use weir_command::table::{self, Id};
use weir_command::{Command, Request};
use weir_model::partition_of;

use super::is_own;
use super::position::MARK;

/// The words of a command.
pub(super) type Words = Vec<Vec<u8>>;

/// In which partitions a tenant's keys are.
#[derive(Clone, Debug)]
pub(super) struct Partitions {
    /// The key of each partition's mark.
    marks: Vec<Vec<u8>>,
}

impl Partitions {
    /// `count` partitions, at least one.
    pub(super) fn new(count: usize) -> Self {
        let count = count.max(1);
        let home = partition_of(MARK, count);
        let mark = |index| match index {
            index if index == home => MARK.to_vec(),
            index => mark_in(index, count),
        };
        Self { marks: (0..count).map(mark).collect() }
    }

    /// The number of partitions.
    pub(super) fn count(&self) -> usize {
        self.marks.len()
    }

    /// The key that says up to where the partition of this number has everything.
    pub(super) fn mark(&self, index: usize) -> &[u8] {
        &self.marks[index]
    }

    /// A key of the partition of this number, beside its [mark](Self::mark). That it could be written shows that all
    /// that was written before is there.
    pub(super) fn probe(&self, index: usize) -> Vec<u8> {
        [b"{", self.mark(index), b"}:probe"].concat()
    }

    /// The partition whose mark says whether commands that are not about single keys have been done.
    pub(super) fn home(&self) -> usize {
        self.index_of(MARK)
    }

    /// All partitions, [home](Self::home) last.
    pub(super) fn home_last(&self) -> impl Iterator<Item = usize> + use<> {
        let home = self.home();
        (0..self.count()).filter(move |&index| index != home).chain([home])
    }

    fn index_of(&self, key: &[u8]) -> usize {
        partition_of(key, self.count())
    }

    /// The part of `commands` that each partition has to do, in their order. A command that does the same to each of
    /// its keys is taken apart. Any other goes to the partition of its first key, which refuses it if its keys are in
    /// several slots.
    pub(super) fn deal<'c>(&self, commands: &'c [(Words, u64)]) -> Vec<Vec<Cow<'c, (Words, u64)>>> {
        if self.count() == 1 {
            return vec![commands.iter().map(Cow::Borrowed).collect()];
        }
        let mut dealt = vec![Vec::new(); self.count()];
        for command in commands {
            let (words, offset) = command;
            match apart(words) {
                Some(parts) => {
                    for part in parts {
                        dealt[self.index_of(&part[1])].push(Cow::Owned((part, *offset)));
                    }
                }
                None => dealt[self.place_of(words)].push(Cow::Borrowed(command)),
            }
        }
        dealt
    }

    /// The partition that does a command. A command without a key that we know is refused by every partition.
    fn place_of(&self, words: &Words) -> usize {
        let Some(command) = known(words) else { return self.home() };
        let request = request(words);
        let args = request.args();
        let key = command.keys_in(args).next().or_else(|| command.stored_key(args));
        key.map_or(self.home(), |key| self.index_of(key))
    }
}

/// A key like [`MARK`] in the partition `index` of `count`.
fn mark_in(index: usize, count: usize) -> Vec<u8> {
    let keys = (0_u32..).map(|number| [MARK, b":", number.to_string().as_bytes()].concat());
    // Every slot has keys of this form.
    keys.into_iter().find(|key| partition_of(key, count) == index).unwrap_or_default()
}

fn known(words: &Words) -> Option<&'static Command> {
    table::find(words.first()?)
}

fn request(words: &Words) -> Request {
    Request::new(0, 0, words.iter().map(Vec::as_slice))
}

/// Whether a command is about a key with the name of one that the import itself writes.
pub(super) fn is_about_own(words: &Words) -> bool {
    // Most commands have no such word at all.
    if !words.iter().skip(1).any(|word| is_own(word)) {
        return false;
    }
    let Some(command) = known(words) else { return false };
    let request = request(words);
    let args = request.args();
    command.keys_in(args).chain(command.stored_key(args)).any(is_own)
}

/// One command for each key, if that has the same effect. An `MSETNX` that a source sends has found none of its keys,
/// so it is an `MSET`.
pub(super) fn apart(words: &Words) -> Option<Vec<Words>> {
    let command = known(words)?;
    let (name, step) = match command.id {
        Id::Del | Id::Unlink => (words[0].clone(), 1),
        Id::MSet | Id::MSetNx => (b"MSET".to_vec(), 2),
        _ => return None,
    };
    if words.len() <= 1 + step || !(words.len() - 1).is_multiple_of(step) {
        return None;
    }
    Some(words[1..].chunks(step).map(|part| [std::slice::from_ref(&name), part].concat()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Words {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn each_partition_has_a_mark_of_its_own() {
        for count in [1, 2, 3, 7, 256] {
            let partitions = Partitions::new(count);
            for index in 0..count {
                let mark = partitions.mark(index);
                assert_eq!(partitions.index_of(mark), index, "{count}");
                let probe = partitions.probe(index);
                assert_eq!(partitions.index_of(&probe), index, "{count}");
                assert!(is_own(mark) && is_own(&probe));
            }
            assert_eq!(partitions.mark(partitions.home()), MARK);
            let mut all: Vec<_> = partitions.home_last().collect();
            assert_eq!(all.last(), Some(&partitions.home()));
            all.sort_unstable();
            assert!(all.into_iter().eq(0..count));
        }
    }

    #[test]
    fn commands_go_where_their_keys_are_and_lists_of_keys_are_taken_apart() {
        let partitions = Partitions::new(4);
        let lines = [
            "SET a 1",
            "MSET a 2 b 3 c 4 d 5 e 6",
            "DEL a b c d e",
            "unlink a",
            "msetnx x 1 y 2",
            "RENAME a b",
            "XREADGROUP GROUP a b STREAMS x 0",
            "EVAL script 2 c d",
            "NOSUCH a",
        ];
        let commands: Vec<_> = lines.iter().zip(1..).map(|(line, offset)| (words(line), offset)).collect();
        let owned = |dealt: Vec<Vec<Cow<'_, (Words, u64)>>>| -> Vec<Vec<(Words, u64)>> {
            dealt.into_iter().map(|part| part.into_iter().map(Cow::into_owned).collect()).collect()
        };
        let dealt = owned(partitions.deal(&commands));
        let at = |key: &str| &dealt[partitions.index_of(key.as_bytes())];
        let has = |key: &str, line: &str, offset: u64| at(key).contains(&(words(line), offset));
        for (key, value) in [("a", 2), ("b", 3), ("c", 4), ("d", 5), ("e", 6)] {
            assert!(has(key, &format!("MSET {key} {value}"), 2) && has(key, &format!("DEL {key}"), 3), "{key}");
        }
        assert!(has("a", "SET a 1", 1) && has("a", "unlink a", 4) && has("a", "RENAME a b", 6));
        assert!(has("x", "MSET x 1", 5) && has("y", "MSET y 2", 5));
        assert!(has("x", "XREADGROUP GROUP a b STREAMS x 0", 7) && has("c", "EVAL script 2 c d", 8));
        assert!(dealt[partitions.home()].contains(&(words("NOSUCH a"), 9)));
        assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), 5 + 5 + 2 + 6);
        assert!(dealt.iter().all(|part| part.is_sorted_by_key(|(_, offset)| *offset)));
        assert_eq!(owned(Partitions::new(1).deal(&commands)), [commands]);
    }
}
