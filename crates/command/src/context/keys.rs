//! Pages of keys, for commands that go through all of them. They include what the command itself has written, and what
//! the commands before it in a transaction or a script have written.

use std::cmp::Ordering;

use weir_model::parts::HeadRef;
use weir_model::{Change, StoredKey};

use super::Context;
use super::asked::lives;
use crate::draft::Draft;
use crate::error::Outcome;
use crate::in_hand::letting_go;
use crate::rows::Page;

impl Context<'_> {
    /// Up to `limit` keys from the place `from` on.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub async fn page(&mut self, from: &[u8], limit: usize) -> Outcome<Page> {
        let database = self.number();
        let page = self.rows.page(database, from, limit);
        let page = letting_go(page, || self.host.replies().own_values()).await?;
        self.call.bill.scanned(&page);
        // A command that has written runs where all of its rows are, so places are keys.
        let now_ms = self.call.now_ms;
        Ok(if self.draft.is_empty() { page } else { with_own(&mut self.draft, page, (database, from), limit, now_ms) })
    }
}

/// `page` of `database`, which begins at the key `from`, with the changes of `draft`.
fn with_own(draft: &mut Draft, page: Page, (database, from): (u8, &[u8]), limit: usize, now_ms: u64) -> Page {
    let Page { keys, kinds, next, passed } = page;
    // The part of the range that the page covers; `next` goes on behind it.
    let end = next.as_ref().map_or_else(|| vec![database + 1], |next| StoredKey::new(database, next).to_vec());
    let first = StoredKey::new(database, from);
    let mut own = draft.last_in(&first[..]..&end[..]).peekable();
    let mut stored = keys.into_iter().enumerate().peekable();
    let mut page = Page { next, passed, ..Page::default() };
    // The loop is bounded, because a command may have written very many keys.
    while page.keys.len() < limit {
        let order = match (own.peek(), stored.peek()) {
            (None, None) => return page,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(change), Some((_, key))) => change.key()[1..].cmp(key),
        };
        let at = page.keys.len();
        if order.is_ge()
            && let Some((index, key)) = stored.next()
            && order.is_gt()
        {
            page.kinds.extend(kinds.get(&index).map(|&kind| (at, kind)));
            page.keys.push(key);
        }
        if order.is_le()
            && let Some(change) = own.next().filter(|change| lives(change, now_ms))
        {
            if let Change::Head { head, .. } = change {
                page.kinds.extend(HeadRef::parse(head).map(|head| (at, head.kind)));
            }
            page.keys.push(change.key()[1..].to_vec());
        }
    }
    let left = [own.peek().map(|change| change.key()[1..].to_vec()), stored.next().map(|(_, key)| key)];
    page.next = left.into_iter().flatten().min().or(page.next);
    page
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_model::Batch;
    use weir_model::parts::{Head, RowType};

    use super::*;

    const NOW_MS: u64 = 1000;

    /// A page of `limit` of the stored `keys`, all of them sets.
    fn page_of(keys: &[Vec<u8>], from: &[u8], limit: usize) -> Page {
        let mut rest = keys.iter().filter(|key| &key[..] >= from);
        let keys: Vec<Vec<u8>> = rest.by_ref().take(limit).cloned().collect();
        let kinds = (0..keys.len()).map(|index| (index, RowType::Set)).collect();
        Page { keys, kinds, next: rest.next().cloned(), ..Page::default() }
    }

    proptest! {
        #[test]
        fn pages_are_those_of_rows_and_changes_together(
            stored in proptest::collection::btree_set(0..30_u8, 0..20),
            changes in proptest::collection::vec((0..30_u8, 0..4_u8, 2..4_u8), 0..20),
            limit in 1..6_usize,
        ) {
            let stored: Vec<Vec<u8>> = stored.into_iter().map(|key| vec![key]).collect();
            let mut expected: std::collections::BTreeMap<Vec<u8>, Option<RowType>> =
                stored.iter().map(|key| (key.clone(), Some(RowType::Set))).collect();
            let mut batch = Batch::new();
            for (key, what, database) in changes {
                let (key, head) = (&[key][..], Head::new(RowType::List, 1).encode());
                let (change, left) = match what {
                    0 => (Change::Delete { key }, None),
                    1 => (Change::Put { key, value: b"", expire_at_ms: None }, Some(None)),
                    2 => (Change::Put { key, value: b"", expire_at_ms: Some(NOW_MS) }, None),
                    _ => (Change::Head { key, head: &head, expire_at_ms: None }, Some(Some(RowType::List))),
                };
                batch.push_row(database, change);
                if database == 2 {
                    let _ = expected.remove(key);
                    expected.extend(left.map(|kind| (key.to_vec(), kind)));
                }
            }
            let (mut draft, mut found, mut next) = (Draft::from(batch), Vec::new(), Some(Vec::new()));
            while let Some(from) = next {
                let page = with_own(&mut draft, page_of(&stored, &from, limit), (2, &from), limit, NOW_MS);
                prop_assert!(page.keys.len() <= limit);
                found.extend(page.keys.iter().enumerate().map(|(at, key)| (key.clone(), page.kinds.get(&at).copied())));
                next = page.next;
            }
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
