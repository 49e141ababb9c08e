//! Who has blocks in the cache: a number for each, so that an entry need not carry more.

use std::collections::{BTreeMap, VecDeque};

use weir_io::Owner;

/// So many rows of owners without tables are looked at before a new one is made. With more than one the rows of those
/// that are gone are found faster than new ones come.
const LOOKS: usize = 4;

/// A row has its number as long as its owner has tables open, and until the last block is gone that these left behind;
/// then the next owner gets it.
#[derive(Default)]
pub(super) struct Owners {
    numbers: BTreeMap<Owner, u32>,
    rows: Vec<Row>,
    /// Numbers of rows without tables, and perhaps some that have some again.
    resting: VecDeque<u32>,
}

struct Row {
    owner: Owner,
    tables: usize,
    is_resting: bool,
}

impl Owners {
    /// The number of `owner`, if it has one.
    pub(super) fn number(&self, owner: Owner) -> Option<u32> {
        self.numbers.get(&owner).copied()
    }

    /// A table of `owner` is opened. Gives its number; `retire` says of a number whether nothing is left under it, and
    /// forgets what was counted.
    pub(super) fn enter(&mut self, owner: Owner, retire: impl FnMut(u32) -> bool) -> u32 {
        let number = self.number(owner).or_else(|| self.reuse(owner, retire)).unwrap_or_else(|| {
            self.rows.push(Row { owner, tables: 0, is_resting: false });
            (self.rows.len() - 1) as u32
        });
        self.numbers.insert(owner, number);
        self.rows[number as usize].tables += 1;
        number
    }

    /// One of the tables of `number` is closed.
    pub(super) fn leave(&mut self, number: u32) {
        let row = &mut self.rows[number as usize];
        row.tables -= 1;
        if row.tables == 0 && !row.is_resting {
            row.is_resting = true;
            self.resting.push_back(number);
        }
    }

    fn reuse(&mut self, owner: Owner, mut retire: impl FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..LOOKS.min(self.resting.len()) {
            let number = self.resting.pop_front()?;
            let row = &mut self.rows[number as usize];
            if row.tables > 0 {
                row.is_resting = false;
            } else if retire(number) {
                self.numbers.remove(&row.owner);
                *row = Row { owner, tables: 0, is_resting: false };
                return Some(number);
            } else {
                self.resting.push_back(number);
            }
        }
        None
    }
}
