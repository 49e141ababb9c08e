//! The places where scans go on.
//!
//! A Redis cursor is a number of 64 bits, but a place in an ordered tree is a key. So the number names an entry of a
//! ring that holds the keys where the last scans stopped. Nothing is held open in the store for a scan (no iterator, no
//! snapshot), the ring is bounded in entries and bytes, and a cursor works on any connection of the tenant. A cursor
//! that is older than the ring, or from before a restart, is refused. A client that gets no error sees every key that
//! was there during its whole scan. Each tenant has a ring of its own, so that no tenant's cursor means anything to
//! another (S5), nor pushes it out. A cursor of one database is unknown in the others.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// How many scans can be under way at once, at least. The place of a typical key takes about 50 bytes.
const PLACES_MAX: usize = 16 << 10;
/// Bytes of keys held, at most (plus one key).
const PLACES_BYTES_MAX: usize = 2 << 20;

/// A tenant's ring. The numbers grow by one for each place, from a random start that differs between runs.
pub(crate) struct Cursors {
    places: Mutex<Places>,
}

struct Places {
    /// The database and the key of each place.
    keys: VecDeque<(u8, Vec<u8>)>,
    key_bytes: usize,
    /// The number of `keys[0]`; never 0, which is "from the start" and "at the end".
    first: u64,
}

impl Cursors {
    /// A ring whose numbers start at a place drawn from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        // 40 random bits above 22 zero bits to count in. Clients that read a signed number are fine.
        let first = ((seed >> 24) << 22) | 1;
        Self { places: Mutex::new(Places { keys: VecDeque::new(), key_bytes: 0, first }) }
    }

    /// A cursor that goes on at `key` of `database`.
    pub(crate) fn issue(&self, database: u8, key: Vec<u8>) -> u64 {
        let mut places = self.places.lock();
        places.key_bytes += key.len();
        places.keys.push_back((database, key));
        while places.keys.len() > PLACES_MAX || (places.key_bytes > PLACES_BYTES_MAX && places.keys.len() > 1) {
            let (_, dropped) = places.keys.pop_front().expect("more than one place");
            places.key_bytes -= dropped.len();
            places.first += 1;
        }
        places.first + places.keys.len() as u64 - 1
    }

    /// The key of `database` at which the scan goes on; `None` if the cursor is too old or not from this ring. The same
    /// cursor may be used again.
    pub(crate) fn resolve(&self, database: u8, cursor: u64) -> Option<Vec<u8>> {
        let places = self.places.lock();
        let index = usize::try_from(cursor.checked_sub(places.first)?).ok()?;
        places.keys.get(index).filter(|(of, _)| *of == database).map(|(_, key)| key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_places_are_kept_and_older_ones_refused() {
        let cursors = Cursors::new(7 << 30);
        let first = cursors.issue(3, b"first".to_vec());
        assert_eq!(cursors.resolve(3, first).as_deref(), Some(&b"first"[..]));
        assert_eq!(cursors.resolve(0, first), None, "a cursor belongs to its database");
        let last = (0..PLACES_MAX).map(|i| cursors.issue(3, i.to_string().into_bytes())).last().expect("some");
        assert_eq!(cursors.resolve(3, last), Some((PLACES_MAX - 1).to_string().into_bytes()));
        assert_eq!(cursors.resolve(3, first), None);
        assert_eq!((cursors.resolve(3, 0), cursors.resolve(3, last + 1)), (None, None));
    }

    #[test]
    fn long_keys_cannot_fill_the_memory() {
        let cursors = Cursors::new(0);
        for _ in 0..1000 {
            cursors.issue(0, vec![0; 64 << 10]);
        }
        assert!(cursors.places.lock().key_bytes <= PLACES_BYTES_MAX);
    }
}
