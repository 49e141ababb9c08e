//! Classes of events, as the setting `notify-keyspace-events` names them.

/// Some of the classes, and where events are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u32);

impl Classes {
    /// None at all.
    pub const NONE: Self = Self(0);
    /// Events are told to channels named by the key.
    pub const KEYSPACE: Self = Self(1);
    /// Events are told to channels named by the event.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// Of commands on keys of any type.
    pub const GENERIC: Self = Self(1 << 2);
    /// Of strings.
    pub const STRING: Self = Self(1 << 3);
    /// Of lists.
    pub const LIST: Self = Self(1 << 4);
    /// Of sets.
    pub const SET: Self = Self(1 << 5);
    /// Of hashes.
    pub const HASH: Self = Self(1 << 6);
    /// Of sorted sets.
    pub const SORTED_SET: Self = Self(1 << 7);
    /// A key was found expired, and is gone.
    pub const EXPIRED: Self = Self(1 << 8);
    /// A key had to go for others. Nothing is evicted here.
    pub const EVICTED: Self = Self(1 << 9);
    /// Of streams.
    pub const STREAM: Self = Self(1 << 10);
    /// Somebody has asked for a key that is not there.
    pub const KEY_MISS: Self = Self(1 << 11);
    /// Of types of modules. There are none.
    pub const MODULE: Self = Self(1 << 12);
    /// A key was made.
    pub const NEW: Self = Self(1 << 13);
    /// A key was changed, for those who keep values of theirs: no letter of the setting means it.
    pub const CHANGED: Self = Self(1 << 14);
    /// A connection has read a key behind changes of its own that are applied with what it reads, and keeps its value:
    /// no letter of the setting means it.
    pub const KEPT: Self = Self(1 << 15);

    /// What `A` stands for, in the order in which Redis tells the letters.
    const ALL: [(u8, Self); 10] = [
        (b'g', Self::GENERIC),
        (b'$', Self::STRING),
        (b'l', Self::LIST),
        (b's', Self::SET),
        (b'h', Self::HASH),
        (b'z', Self::SORTED_SET),
        (b'x', Self::EXPIRED),
        (b'e', Self::EVICTED),
        (b't', Self::STREAM),
        (b'd', Self::MODULE),
    ];

    /// Those that `A` does not stand for.
    const OTHERS: [(u8, Self); 4] =
        [(b'n', Self::NEW), (b'K', Self::KEYSPACE), (b'E', Self::KEYEVENT), (b'm', Self::KEY_MISS)];

    /// All of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has any of `other`.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// What is left without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The classes whose letters these are; `None` where something is none.
    pub fn parse(letters: &[u8]) -> Option<Self> {
        let of = |&letter: &u8| match letter {
            b'A' => Some(Self::all()),
            _ => Self::ALL.iter().chain(&Self::OTHERS).find(|(known, _)| *known == letter).map(|(_, class)| *class),
        };
        letters.iter().try_fold(Self::NONE, |classes, letter| Some(classes.and(of(letter)?)))
    }

    /// Their letters, as Redis tells them: beside `A` it does not say `n`.
    pub fn letters(self) -> String {
        let letters_of = |table: &[(u8, Self)]| -> String {
            table.iter().filter(|(_, class)| self.has(*class)).map(|(letter, _)| char::from(*letter)).collect()
        };
        match self.0 & Self::all().0 == Self::all().0 {
            true => format!("A{}", letters_of(&Self::OTHERS[1..])),
            false => letters_of(&Self::ALL) + &letters_of(&Self::OTHERS),
        }
    }

    /// What is needed to know for it, while its letters are as they are: nothing where nobody would be told.
    #[must_use]
    pub fn in_use(self) -> Self {
        let places = Self::KEYSPACE.and(Self::KEYEVENT);
        if self.has(places) { self.without(places) } else { Self::NONE }
    }

    fn all() -> Self {
        Self::ALL.iter().fold(Self::NONE, |all, (_, class)| all.and(*class))
    }

    /// As a number, to be kept in one atomic.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Those of [`Classes::bits`].
    pub const fn of_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_told_as_redis_tells_them() {
        for (set, told) in [
            ("", Some("")),
            ("EK", Some("KE")),
            ("KEA", Some("AKE")),
            ("nAKEm", Some("AKEm")),
            ("g$lshzxetdKEmn", Some("AKEm")),
            ("g$lshzxe", Some("g$lshzxe")),
            ("ng", Some("gn")),
            ("mn", Some("nm")),
            ("a", None),
            ("Kg n", None),
        ] {
            assert_eq!(Classes::parse(set.as_bytes()).map(Classes::letters).as_deref(), told, "{set}");
        }
    }

    #[test]
    fn nothing_is_in_use_where_nobody_would_be_told() {
        let classes = |letters: &str| Classes::parse(letters.as_bytes()).expect("letters");
        assert_eq!(classes("A").in_use(), Classes::NONE);
        assert_eq!(classes("EA").in_use(), classes("A"));
        assert!(classes("Kx").in_use().has(Classes::EXPIRED) && !classes("Kx").in_use().has(Classes::GENERIC));
    }
}
