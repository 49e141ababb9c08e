//! The categories of Redis' ACLs, which rules use to name many commands at once.

use std::fmt;

/// A set of categories.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// The names of all categories, in Redis' order.
    pub const NAMES: [&'static str; 21] = [
        "keyspace",
        "read",
        "write",
        "set",
        "sortedset",
        "list",
        "hash",
        "string",
        "bitmap",
        "hyperloglog",
        "geo",
        "stream",
        "pubsub",
        "admin",
        "fast",
        "slow",
        "blocking",
        "dangerous",
        "connection",
        "transaction",
        "scripting",
    ];

    /// No category.
    pub const NONE: Self = Self(0);

    /// The categories with these names. An unknown name, or no name at all, fails the compilation of a table that has
    /// it.
    ///
    /// # Panics
    /// There is no such category, or no name.
    pub const fn of(names: &[&str]) -> Self {
        assert!(!names.is_empty(), "a command is in at least one category");
        Self::all_of(names)
    }

    /// The categories with these names, which may be none: for entries that get others from their flags.
    ///
    /// # Panics
    /// There is no such category.
    pub const fn all_of(names: &[&str]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < names.len() {
            set |= 1 << Self::place(names[at]);
            at += 1;
        }
        Self(set)
    }

    /// These categories, and those that follow from the flags and the group of a command. What a script does is decided
    /// by the commands that it calls.
    pub const fn with_flags(self, flags: &[&str], group: &str) -> Self {
        let (mut set, mut at, mut is_fast) = (self.0, 0, false);
        while at < flags.len() {
            if equal(flags[at], "readonly") && !equal(group, "scripting") {
                set |= 1 << Self::place("read");
            } else if equal(flags[at], "write") {
                set |= 1 << Self::place("write");
            } else if equal(flags[at], "fast") {
                is_fast = true;
            }
            at += 1;
        }
        Self(set | 1 << Self::place(if is_fast { "fast" } else { "slow" }))
    }

    const fn place(name: &str) -> usize {
        let mut place = 0;
        while place < Self::NAMES.len() {
            if equal(name, Self::NAMES[place]) {
                return place;
            }
            place += 1;
        }
        panic!("there is no such category")
    }

    /// The place in [`Categories::NAMES`] of the category called `name`, in upper or lower case.
    pub fn find(name: &[u8]) -> Option<usize> {
        Self::NAMES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    }

    /// Whether the category at `place` of [`Categories::NAMES`] is in the set.
    pub fn has(self, place: usize) -> bool {
        self.0 >> place & 1 == 1
    }

    /// The names of the categories in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        Self::NAMES.iter().enumerate().filter(move |(place, _)| self.has(*place)).map(|(_, name)| *name)
    }
}

impl fmt::Debug for Categories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Whether two texts are equal, in a form that the compiler can evaluate.
const fn equal(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_make_sets_and_flags_add_to_them() {
        let set = Categories::of(&["string", "keyspace"]);
        assert_eq!(set.names().collect::<Vec<_>>(), ["keyspace", "string"]);
        let names = |flags: &[&str], group| set.with_flags(flags, group).names().collect::<Vec<_>>();
        assert_eq!(names(&["write", "denyoom"], ""), ["keyspace", "write", "string", "slow"]);
        assert_eq!(names(&["readonly", "fast"], ""), ["keyspace", "read", "string", "fast"]);
        assert_eq!(names(&["readonly"], "scripting"), ["keyspace", "string", "slow"]);
        assert_eq!((Categories::find(b"GEO"), Categories::find(b"geography")), (Some(10), None));
    }
}
