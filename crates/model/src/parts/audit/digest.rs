//! Compares two sets without keeping either: each is reduced to the sum of a hash of every element.

use xxhash_rust::xxh3::xxh3_128;

/// The sum over a set; the order of its elements does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest(u128);

impl Digest {
    /// Adds an element that consists of `words`.
    pub fn add(&mut self, words: &[&[u8]]) {
        let mut whole = Vec::with_capacity(words.iter().map(|word| word.len() + 8).sum());
        for word in words {
            whole.extend_from_slice(&(word.len() as u64).to_le_bytes());
            whole.extend_from_slice(word);
        }
        self.0 = self.0.wrapping_add(xxh3_128(&whole));
    }
}

/// Elements that come grouped by name, one group after the other: a digest of each group's name, number and sum.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// The name of the present group.
    name: Vec<u8>,
    members: u64,
    sum: u64,
    done: Digest,
}

impl Runs {
    /// Adds one more element of the group `name`, with `amount`.
    pub fn add(&mut self, name: &[u8], amount: u64) {
        if self.members > 0 && self.name != name {
            self.end();
        }
        if self.members == 0 {
            name.clone_into(&mut self.name);
        }
        self.members += 1;
        self.sum = self.sum.saturating_add(amount);
    }

    fn end(&mut self) {
        self.done.add(&[&self.name, &self.members.to_le_bytes(), &self.sum.to_le_bytes()]);
        (self.members, self.sum) = (0, 0);
    }

    /// The digest of all groups.
    pub fn finish(mut self) -> Digest {
        if self.members > 0 {
            self.end();
        }
        self.done
    }

    /// Adds a group to `digest` as [`Runs::finish`] would have it.
    pub fn expect(digest: &mut Digest, name: &[u8], members: u64, sum: u64) {
        if members > 0 {
            digest.add(&[name, &members.to_le_bytes(), &sum.to_le_bytes()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_does_not_matter_and_what_is_missing_does(mut words: Vec<Vec<u8>>, lost: proptest::sample::Index) {
            let digest = |words: &[Vec<u8>]| {
                let mut digest = Digest::default();
                words.iter().for_each(|word| digest.add(&[word, b"x"]));
                digest
            };
            let before = digest(&words);
            words.reverse();
            prop_assert_eq!(digest(&words), before);
            if !words.is_empty() {
                words.remove(lost.index(words.len()));
                prop_assert_ne!(digest(&words), before);
            }
        }
    }

    #[test]
    fn groups_are_counted_and_summed() {
        let (mut runs, mut expected) = (Runs::default(), Digest::default());
        for (name, amount) in [("a", 2), ("a", 3), ("b", 1)] {
            runs.add(name.as_bytes(), amount);
        }
        Runs::expect(&mut expected, b"a", 2, 5);
        Runs::expect(&mut expected, b"b", 1, 1);
        Runs::expect(&mut expected, b"none", 0, 0);
        assert_eq!(runs.finish(), expected);
    }
}
