//! The data for attacks that walk through much: many keys, and rows of many parts.

use crate::Result;
use crate::child_server::ChildServer;
use crate::data::key;
use crate::wire::{Client, Reply};

/// Keys that `KEYS *` walks through.
const MANY_KEYS: u64 = 1_000_000;
/// Parts of each row.
const PARTS: u64 = 200_000;
/// Parts in one command that fills a row.
const PARTS_AT_ONCE: u64 = 1_000;

/// A row of many parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Hash,
    List,
    Set,
    SortedSet,
}

impl Row {
    /// The command that adds parts.
    const fn adds(self) -> &'static [u8] {
        match self {
            Row::Hash => b"HSET",
            Row::List => b"RPUSH",
            Row::Set => b"SADD",
            Row::SortedSet => b"ZADD",
        }
    }

    /// Its key.
    pub(super) const fn key(self) -> &'static [u8] {
        match self {
            Row::Hash => b"attack:hash",
            Row::List => b"attack:list",
            Row::Set => b"attack:set",
            Row::SortedSet => b"attack:sorted-set",
        }
    }

    /// The words of the part of this number.
    fn part(self, number: u64) -> Vec<Vec<u8>> {
        // The values of the list are sorted by the attack, so they stand in another order.
        let shuffled = (number * 7_919 % PARTS).to_string().into_bytes();
        let name = format!("part:{number:012}").into_bytes();
        match self {
            Row::Hash => vec![name, shuffled],
            Row::List => vec![shuffled],
            Row::Set => vec![name],
            Row::SortedSet => vec![shuffled, name],
        }
    }

    /// Makes the row, of 200,000 parts.
    pub(super) fn load(self, server: &ChildServer) -> Result<()> {
        let mut client = server.connect()?;
        client.call(&[b"DEL", self.key()])?;
        for first in (0..PARTS).step_by(PARTS_AT_ONCE as usize) {
            let parts: Vec<_> = (first..first + PARTS_AT_ONCE).flat_map(|number| self.part(number)).collect();
            let front = [self.adds(), self.key()];
            let words: Vec<_> = front.into_iter().chain(parts.iter().map(Vec::as_slice)).collect();
            client.call(&words)?;
        }
        Ok(())
    }
}

/// Makes a million small keys.
pub(super) fn load_keys(server: &ChildServer) -> Result<()> {
    let mut client = server.connect()?;
    for first in (0..MANY_KEYS).step_by(10_000) {
        (first..first + 10_000).for_each(|item| client.push(&[b"SET", &key(1_000_000_000 + item), b"v"]));
        client.flush()?;
        (0..10_000).try_for_each(|_| stored(&mut client))?;
    }
    Ok(())
}

fn stored(client: &mut Client) -> Result<()> {
    match client.read()? {
        Reply::Line(line) if line.starts_with('-') => Err(line.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_row_are_all_different() {
        for row in [Row::Hash, Row::Set, Row::SortedSet, Row::List] {
            let mut parts: Vec<_> = (0..PARTS).map(|number| row.part(number)).collect();
            parts.sort();
            parts.dedup();
            assert_eq!(parts.len() as u64, PARTS, "{row:?}");
        }
    }
}
