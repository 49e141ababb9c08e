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
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.history, self.offset, self.database)
    }
}

impl Position {
    /// Parses what `Display` shows.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let (history, offset, database) = (words.next()?, words.next()?, words.next()?);
        let history = (history.len() == 40 && words.next().is_none()).then(|| history.to_owned())?;
        Some(Self { history, offset: offset.parse().ok()?, database: database.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_parsed() {
        let position = Position { history: "8".repeat(40), offset: u64::MAX, database: 15 };
        assert_eq!(Position::parse(position.to_string().as_bytes()), Some(position));
        for text in ["", "8 1 0", &format!("{} 1", "8".repeat(40)), &format!("{} 1 2 3", "8".repeat(40))] {
            assert_eq!(Position::parse(text.as_bytes()), None, "{text}");
        }
    }
}
