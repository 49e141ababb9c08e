//! The position up to which a tenant has done what its source did.

use std::fmt;

/// The key that holds the position, in each database that was written to. It is removed at the end of the import. If a
/// tenant has several partitions, each has such a key: this one, or one that begins with it and a colon.
pub const MARK: &[u8] = b"weir:import:position";

/// A key in a database that the source has exchanged for another, until the tenant has done so, too. It moves with the
/// data, so its place says whether the exchange is done. It has the hash slot of [`MARK`].
pub const EXCHANGED: &[u8] = b"{weir:import:position}:exchanged";

/// A key that says which databases are imported. It has the hash slot of [`MARK`].
pub const CHOSEN: &[u8] = b"{weir:import:position}:databases";

/// A place in the stream of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The history that it belongs to: 40 hexadecimal digits.
    pub history: String,
    /// Bytes since the beginning of the history.
    pub offset: u64,
    /// The database that is chosen at this place.
    pub database: u64,
    /// The last moment, in milliseconds since 1970, of which it was known here that the tenant has all that the source
    /// had done by then; 0 = there is none.
    pub in_step_ms: u64,
}

/// Shows the place alone.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.history, self.offset, self.database)
    }
}

impl Position {
    /// What a mark says of it.
    pub fn mark(&self) -> String {
        format!("{self} {}", self.in_step_ms)
    }

    /// Parses a mark. One of an earlier version tells no moment.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let (history, offset, database) = (words.next()?, words.next()?, words.next()?);
        let in_step_ms = words.next().unwrap_or("0").parse().ok()?;
        let history = (history.len() == 40 && words.next().is_none()).then(|| history.to_owned())?;
        Some(Self { history, offset: offset.parse().ok()?, database: database.parse().ok()?, in_step_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_parsed_also_one_that_tells_no_moment() {
        let position = Position { history: "8".repeat(40), offset: u64::MAX, database: 15, in_step_ms: 7 };
        assert_eq!(Position::parse(position.mark().as_bytes()), Some(position.clone()));
        let of_earlier = Position { in_step_ms: 0, ..position };
        assert_eq!(Position::parse(of_earlier.to_string().as_bytes()), Some(of_earlier));
        for text in ["", "8 1 0", &format!("{} 1", "8".repeat(40)), &format!("{} 1 2 3 4", "8".repeat(40))] {
            assert_eq!(Position::parse(text.as_bytes()), None, "{text}");
        }
    }
}
