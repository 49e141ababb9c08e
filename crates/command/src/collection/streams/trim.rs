//! Removing entries from the front of a stream.

use weir_model::parts::RowType;
use weir_model::parts::stream::{CONSUMERS, ENTRIES, EntryId, GROUPS, PENDING, PENDING_OF};

use super::{Entry, Group, PAGE_ENTRIES, Stream};
use crate::collection::Collection;
use crate::context::{Context, Subkeys};
use crate::error::{Error, Outcome};

/// A trim that removes no more entries than this removes them one by one.
const FEW_ENTRIES: u64 = 100;

/// Most parts, and bytes of them, that one command removes or puts into a new life.
const CHANGED_PARTS_MAX: u64 = 100_000;
const CHANGED_BYTES_MAX: usize = 64 << 20;
const TOO_MANY: Error = Error::new(
    "ERR the stream is too large for this: more than 100000 entries, or 64 MB of them, would have to go, and as many \
     to stay. Trim it with ~, or in smaller steps",
);

/// Which entries stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// At most this many entries: the last ones.
    Last(u64),
    /// The entries from this id on.
    From(EntryId),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// Which entries stay.
    pub keep: Keep,
    /// More entries may stay, so that a trim only removes entries if that is worth it.
    pub is_approximate: bool,
    /// Most entries that may be removed.
    pub limit: Option<u64>,
}

/// How many parts and bytes a command may still change.
struct Budget {
    parts: u64,
    bytes: usize,
}

impl Budget {
    const WHOLE: Self = Self { parts: CHANGED_PARTS_MAX, bytes: CHANGED_BYTES_MAX };

    fn spend(&mut self, bytes: usize) -> Outcome {
        self.parts = self.parts.checked_sub(1).ok_or(TOO_MANY)?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(TOO_MANY)?;
        Ok(())
    }
}

/// How many of the `wanted` first entries of a stream of `len` entries are removed, if only whole nodes of `node`
/// entries each are (0 = all entries are in one node). Nodes are filled one after the other. So the last node has what
/// was `added` since it was begun, and entries that are missing are missing at the front.
fn whole_nodes(len: u64, added: u64, wanted: u64, node: u64) -> u64 {
    if node == 0 || added == 0 {
        return 0;
    }
    let last = (added - 1) % node + 1;
    let first = len.saturating_sub(last) % node;
    match wanted.checked_sub(first) {
        Some(rest) => first + rest / node * node,
        None => 0,
    }
}

impl<'k> Stream<'k> {
    /// Removes entries; gives how many.
    ///
    /// # Errors
    /// Too many entries have to go, and too many stay; or entries cannot be read.
    pub async fn trim(&mut self, cx: &mut Context<'_>, trim: Trim) -> Outcome<u64> {
        let limit = trim.limit.unwrap_or(u64::MAX);
        let mut gone = match trim.keep {
            Keep::Last(len) => self.len().saturating_sub(len).min(limit),
            Keep::From(id) => self.len_before(cx, id, limit).await?,
        };
        // If all entries go, the last node goes, too.
        if trim.is_approximate && gone < self.len() {
            gone = whole_nodes(self.len(), self.detail.added, gone.min(CHANGED_PARTS_MAX), cx.stream_node_entries());
        }
        if gone == 0 {
            return Ok(0);
        }
        let stay = self.len() - gone;
        let most_go = gone > stay && gone > FEW_ENTRIES && self.row.packed().is_none();
        // All that the groups have would be put into a new life, too.
        if most_go && stay.saturating_add(self.group_parts(cx).await?) <= CHANGED_PARTS_MAX {
            let before = cx.mark();
            match self.renew(cx, gone).await {
                // The few that stay have too many bytes. The many that go may have fewer.
                Err(error) if error == TOO_MANY && gone <= CHANGED_PARTS_MAX => cx.rewind(before),
                renewed => return renewed.map(|()| gone),
            }
        }
        self.remove_front(cx, gone).await?;
        Ok(gone)
    }

    /// How many entries are in front of `id`, counting up to `limit`.
    async fn len_before(&self, cx: &mut Context<'_>, id: EntryId, limit: u64) -> Outcome<u64> {
        let mut left = id.previous().and_then(|last| self.range(EntryId::MIN, last, false));
        let mut len = 0;
        while let Some(range) = left.filter(|_| len < limit) {
            let (entries, rest) = self.entries(cx, range, PAGE_ENTRIES).await?;
            len += entries.len() as u64;
            left = rest;
            cx.end_step(left.is_some() && len < limit).await;
        }
        Ok(len.min(limit))
    }

    /// How many parts the groups have, with their consumers and what is pending.
    async fn group_parts(&self, cx: &mut Context<'_>) -> Outcome<u64> {
        if self.detail.groups == 0 {
            return Ok(0);
        }
        let (mut parts, mut behind) = (0_u64, None::<Vec<u8>>);
        loop {
            let page = self.groups_behind(cx, behind.as_deref()).await?;
            let Some(last) = page.last() else { return Ok(parts) };
            behind = Some(last.name.clone());
            for Group { value, .. } in &page {
                // What is pending stands in the order of the group, and in that of its consumer.
                let pending = value.pending.saturating_mul(2);
                parts = parts.saturating_add(1).saturating_add(value.consumers).saturating_add(pending);
            }
            cx.end_step(page.len() == PAGE_ENTRIES).await;
        }
    }

    /// Removes the first `count` entries, one by one.
    async fn remove_front(&mut self, cx: &mut Context<'_>, count: u64) -> Outcome {
        let (mut left, mut budget, mut last) = (count, Budget::WHOLE, EntryId::MIN);
        let mut range = self.range(EntryId::MIN, EntryId::MAX, false);
        while left > 0
            && let Some(here) = range
        {
            let (entries, rest) = self.entries(cx, here, usize::try_from(left).unwrap_or(usize::MAX)).await?;
            for entry in entries {
                budget.spend(entry.bytes())?;
                last = entry.id;
                left -= 1;
                self.row.remove_ordered(cx, ENTRIES, &last.subkey(), entry.bytes())?;
            }
            range = rest;
            cx.end_step(left > 0 && range.is_some()).await;
        }
        self.find_first(cx, last).await
    }

    /// Puts everything but the first `count` entries into a new life of the row. The parts of the old life end with its
    /// head, without being read.
    async fn renew(&mut self, cx: &mut Context<'_>, count: u64) -> Outcome {
        let mut renewed = cx.new_collection(self.row.key, RowType::Stream);
        renewed.expire_at_ms = self.row.expire_at_ms;
        let mut budget = Budget::WHOLE;
        let first = self.copy_last(cx, self.len() - count, &mut renewed, &mut budget).await?;
        for space in [GROUPS, CONSUMERS, PENDING, PENDING_OF] {
            let mut left = Some(Subkeys::all(space));
            while let Some(subkeys) = left {
                let page = self.row.ordered_page(cx, subkeys, PAGE_ENTRIES).await?;
                for part in page.parts {
                    budget.spend(part.value.len())?;
                    renewed.put_ordered(cx, space, &part.subkey, None, &part.value)?;
                }
                left = page.next;
                cx.yields().now().await;
            }
        }
        renewed.is_changed = true;
        self.row = renewed;
        self.detail.first = first;
        Ok(())
    }

    /// Copies the last `count` entries to `renewed`; gives the id of the first of them.
    async fn copy_last(
        &self,
        cx: &mut Context<'_>,
        count: u64,
        renewed: &mut Collection<'k>,
        budget: &mut Budget,
    ) -> Outcome<EntryId> {
        let (mut left, mut first) = (count, EntryId::MIN);
        let mut range = self.range(EntryId::MIN, EntryId::MAX, true);
        while left > 0
            && let Some(here) = range
        {
            let (entries, rest) = self.entries(cx, here, usize::try_from(left).unwrap_or(usize::MAX)).await?;
            for Entry { id, value } in entries {
                budget.spend(value.len())?;
                (first, left) = (id, left - 1);
                renewed.put_ordered(cx, ENTRIES, &id.subkey(), None, &value)?;
            }
            range = rest;
            cx.yields().now().await;
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::whole_nodes;

    #[test]
    fn an_approximate_trim_takes_whole_nodes() {
        // 1,000 entries in nodes of 100, with 445 of them removed from the front: the first node has 55.
        for (wanted, gone) in [(54, 0), (55, 55), (111, 55), (155, 155), (554, 455)] {
            assert_eq!(whole_nodes(555, 1000, wanted, 100), gone, "{wanted}");
        }
        // The last node is not full.
        assert_eq!(whole_nodes(101, 101, 46, 10), 40);
        assert_eq!(whole_nodes(100, 100, 100, 0), 0);
        assert_eq!(whole_nodes(3, 3, 2, 10), 0);
    }
}
