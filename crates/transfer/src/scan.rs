//! A scan of all keys of a database, page by page.

use std::collections::BTreeSet;

use crate::failure::{Failure, Result};
use crate::import::is_own;
use crate::resp::{Connection, Reply};

/// The cursor of a scan's first page, and the one that is given with its last page.
const FIRST: &[u8] = b"0";
/// How the failure of a scan begins whose place the server has forgotten: scans of other clients have pushed it out.
const FORGOTTEN: &str = "SCAN: ERR invalid cursor";
/// How often the scan of a database may begin again because of that. Each time the keys of a page are remembered.
const SCANS_AGAIN_MAX: u32 = 100;

/// A scan of the database that a connection has chosen. It leaves out the keys that an import itself writes.
pub struct Scan {
    /// The cursor of the next page; `None` after the last page.
    cursor: Option<Vec<u8>>,
    place: Place,
}

impl Scan {
    /// A scan that has not begun yet.
    pub fn new() -> Self {
        Self { cursor: Some(FIRST.to_vec()), place: Place::default() }
    }

    /// The keys of the next page, perhaps none; `None` after the last page. `connection` has to be the same each time.
    ///
    /// # Errors
    /// The connection broke, or the server refuses, or the scan has lost its place.
    pub async fn next(&mut self, connection: &mut Connection) -> Result<Option<Vec<Vec<u8>>>> {
        while let Some(cursor) = &self.cursor {
            let reply = connection.ask(&[b"SCAN".as_slice(), cursor, b"COUNT", b"500"]).await;
            let reply = match reply {
                Err(failure) if failure.message.starts_with(FORGOTTEN) && self.place.begin_again() => {
                    self.cursor = Some(FIRST.to_vec());
                    continue;
                }
                reply => reply?,
            };
            let (next, keys) = page(&reply).ok_or_else(|| Failure::new("SCAN is answered with something else"))?;
            self.cursor = (next != FIRST).then(|| next.to_vec());
            let new = self.place.new_keys(keys).into_iter().filter(|&key| !is_own(key));
            return Ok(Some(new.map(<[u8]>::to_vec).collect()));
        }
        match self.place.is_before {
            false => Ok(None),
            true => Err(Failure::new(
                "scans of other clients have pushed out this one, and the keys by which its place could be found again \
                 are deleted: start again",
            )),
        }
    }
}

fn page(reply: &Reply) -> Option<(&[u8], Vec<&[u8]>)> {
    let Reply::Array(Some(both)) = reply else { return None };
    let Reply::Array(Some(keys)) = both.get(1)? else { return None };
    Some((both.first()?.text()?, keys.iter().filter_map(Reply::text).collect()))
}

/// Where a scan is, by the keys that it has met. If it has to begin again, it meets keys in the same order, but some
/// may have been deleted, and others may have come.
#[derive(Default)]
struct Place {
    /// The keys of the last page that had new ones.
    last: BTreeSet<Vec<u8>>,
    /// Keys that were met before, and may come once more behind one of `last`.
    known: BTreeSet<Vec<u8>>,
    /// The scan has begun again, and has not come to a key of `last` yet.
    is_before: bool,
    /// How often the scan has begun again.
    scans: u32,
}

impl Place {
    /// Begins the scan again; gives whether it may.
    fn begin_again(&mut self) -> bool {
        self.scans += 1;
        self.is_before = !self.last.is_empty();
        self.known.extend(self.last.iter().cloned());
        self.scans <= SCANS_AGAIN_MAX
    }

    /// The keys of a page that the scan has not met before it began again.
    fn new_keys<'k>(&mut self, page: Vec<&'k [u8]>) -> Vec<&'k [u8]> {
        let mut new = Vec::new();
        for key in page {
            self.is_before &= !self.last.contains(key);
            if !self.is_before && !self.known.contains(key) {
                new.push(key);
            }
        }
        if !new.is_empty() {
            self.last = new.iter().map(|key| key.to_vec()).collect();
        }
        new
    }
}
