//! Classes of events, as the setting `notify-keyspace-events` names them.

/// Some of the classes of events, and the channels where events are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u32);

impl Classes {
    /// None at all.
    pub const NONE: Self = Self(0);
    /// Events go to channels named by the key.
    pub const KEYSPACE: Self = Self(1);
    /// Events go to channels named by the event.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// Events of commands on keys of any type.
    pub const GENERIC: Self = Self(1 << 2);
    /// Events of strings.
    pub const STRING: Self = Self(1 << 3);
    /// Events of lists.
    pub const LIST: Self = Self(1 << 4);
    /// Events of sets.
    pub const SET: Self = Self(1 << 5);
    /// Events of hashes.
    pub const HASH: Self = Self(1 << 6);
    /// Events of sorted sets.
    pub const SORTED_SET: Self = Self(1 << 7);
    /// A key was found expired, and is gone.
    pub const EXPIRED: Self = Self(1 << 8);
    /// A key was evicted to make room for others. Weir evicts nothing.
    pub const EVICTED: Self = Self(1 << 9);
    /// Events of streams.
    pub const STREAM: Self = Self(1 << 10);
    /// Somebody has asked for a key that is not there.
    pub const KEY_MISS: Self = Self(1 << 11);
    /// Events of module types. Weir has none.
    pub const MODULE: Self = Self(1 << 12);
    /// A key was made.
    pub const NEW: Self = Self(1 << 13);
    /// A key was changed, for clients that keep values of their own. No letter of the setting stands for this class.
    pub const CHANGED: Self = Self(1 << 14);
    /// A connection has read a key after changes of its own that are applied along with the read, and keeps the value.
    /// No letter of the setting stands for this class.
    pub const KEPT: Self = Self(1 << 15);

    /// The classes that `A` stands for, in the order in which Redis lists the letters.
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

    /// The classes that `A` does not stand for.
    const OTHERS: [(u8, Self); 4] =
        [(b'n', Self::NEW), (b'K', Self::KEYSPACE), (b'E', Self::KEYEVENT), (b'm', Self::KEY_MISS)];

    /// The classes of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has any of `other`.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These classes without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The classes that these letters stand for; `None` if one of them stands for no class.
    pub fn parse(letters: &[u8]) -> Option<Self> {
        let of = |&letter: &u8| match letter {
            b'A' => Some(Self::all()),
            _ => Self::ALL.iter().chain(&Self::OTHERS).find(|(known, _)| *known == letter).map(|(_, class)| *class),
        };
        letters.iter().try_fold(Self::NONE, |classes, letter| Some(classes.and(of(letter)?)))
    }

    /// The letters of these classes, as Redis lists them: with `A` it leaves `n` out.
    pub fn letters(self) -> String {
        let letters_of = |table: &[(u8, Self)]| -> String {
            table.iter().filter(|(_, class)| self.has(*class)).map(|(letter, _)| char::from(*letter)).collect()
        };
        match self.0 & Self::all().0 == Self::all().0 {
            true => format!("A{}", letters_of(&Self::OTHERS[1..])),
            false => letters_of(&Self::ALL) + &letters_of(&Self::OTHERS),
        }
    }

    /// The classes that have to be known for this setting: none if no channel is chosen, as nobody would be told.
    #[must_use]
    pub fn in_use(self) -> Self {
        let places = Self::KEYSPACE.and(Self::KEYEVENT);
        if self.has(places) { self.without(places) } else { Self::NONE }
    }

    fn all() -> Self {
        Self::ALL.iter().fold(Self::NONE, |all, (_, class)| all.and(*class))
    }

    /// The classes as a number, to be kept in one atomic.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The classes of a number that [`Classes::bits`] gave.
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
