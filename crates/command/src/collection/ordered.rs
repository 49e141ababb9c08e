//! Parts in the order of their subkeys, in several spaces. They stand in the row's head, or have keys of their own.

use std::cmp::Ordering;
use std::ops::Bound;

use weir_model::Value;
use weir_model::parts::{ELEMENT_SPACE, PackedPart};

use super::Collection;
use crate::context::{Context, PartsPage, StoredPartsPage, Subkeys};
use crate::error::Outcome;

fn has(subkeys: &Subkeys, part: &PackedPart<'_>) -> bool {
    let is_behind = match &subkeys.from {
        Bound::Unbounded => true,
        Bound::Included(from) => part.subkey >= &from[..],
        Bound::Excluded(from) => part.subkey > &from[..],
    };
    let is_in_front = match &subkeys.to {
        Bound::Unbounded => true,
        Bound::Included(to) => part.subkey <= &to[..],
        Bound::Excluded(to) => part.subkey < &to[..],
    };
    part.space == subkeys.space && is_behind && is_in_front
}

impl Collection<'_> {
    /// The value of the part at `subkey` in `space`.
    ///
    /// # Errors
    /// The part cannot be read.
    pub(super) async fn ordered(&self, cx: &mut Context<'_>, space: u8, subkey: &[u8]) -> Outcome<Option<Value>> {
        match self.packed() {
            Some(packed) => {
                cx.passed_packed(self.len() as usize);
                cx.copied_values(1);
                Ok(packed.get(space, subkey).map(|part| Value::copy_of(part.value)))
            }
            None => cx.part_value(self.key, self.life(), space, subkey).await,
        }
    }

    /// Up to `limit` of `subkeys`, in order. A page may be empty although more parts follow.
    ///
    /// # Errors
    /// The parts cannot be read.
    pub(super) async fn ordered_page(
        &self,
        cx: &mut Context<'_>,
        subkeys: Subkeys,
        limit: usize,
    ) -> Outcome<PartsPage> {
        let page = self.stored_ordered_page(cx, subkeys, limit).await?;
        if self.packed().is_none() {
            cx.copied_parts(page.iter().len());
            cx.copied_values(page.iter().len());
        }
        Ok(page.into_owned())
    }

    /// As [`Collection::ordered_page`], with all parts in one piece of memory.
    ///
    /// # Errors
    /// The parts cannot be read.
    pub(super) async fn stored_ordered_page(
        &self,
        cx: &mut Context<'_>,
        subkeys: Subkeys,
        limit: usize,
    ) -> Outcome<StoredPartsPage> {
        let Some(packed) = self.packed() else { return cx.stored_parts(self.key, self.life(), subkeys, limit).await };
        // One part more than wanted tells whether there are more. For the last parts, all parts have to be looked at.
        let most = if subkeys.reverse { usize::MAX } else { limit.max(1).saturating_add(1) };
        let wanted = packed.iter().filter(|part| has(&subkeys, part)).take(most);
        let mut parts: Vec<PackedPart<'_>> = wanted.collect();
        cx.passed_packed(packed.iter().count());
        cx.copied_parts(parts.len());
        cx.copied_values(parts.len());
        if subkeys.reverse {
            parts.reverse();
        }
        let next = parts.get(limit.max(1) - 1).filter(|_| parts.len() > limit.max(1)).map(|last| {
            let last = Bound::Excluded(last.subkey.to_vec());
            let (from, to) = if subkeys.reverse { (subkeys.from.clone(), last) } else { (last, subkeys.to.clone()) };
            Subkeys { from, to, ..subkeys }
        });
        let parts = parts.iter().take(limit.max(1)).map(|part| (part.subkey, part.value)).collect();
        Ok(StoredPartsPage::of_subkeys(parts, next))
    }

    /// Puts a part at `subkey` in `space`. Before, there was a part with a value of `before` bytes, or none.
    ///
    /// # Errors
    /// The subkey is too long.
    pub(super) fn put_ordered(
        &mut self,
        cx: &mut Context<'_>,
        space: u8,
        subkey: &[u8],
        before: Option<usize>,
        value: &[u8],
    ) -> Outcome {
        let is_counted = space == ELEMENT_SPACE && before.is_none();
        let bytes = match before {
            Some(before) => value.len() as i64 - before as i64,
            None => (subkey.len() + value.len()) as i64,
        };
        self.count(i64::from(is_counted), bytes);
        if self.packed().is_none() {
            return cx.put_part(self.life(), space, subkey, value);
        }
        // Looks for its place, looks whether the part is there, and looks for the place once more.
        cx.passed_packed(2 * self.len() as usize);
        self.change_packed(cx, |packed| {
            let order = |part: &PackedPart<'_>| (part.space, part.subkey).cmp(&(space, subkey));
            let place = packed.iter().position(|part| order(&part) != Ordering::Less);
            let part = PackedPart { space, subkey, value, expire_at_ms: None };
            if packed.get(space, subkey).is_some() {
                packed.put(part);
            } else {
                packed.insert(place.unwrap_or(usize::MAX), part);
            }
        })
    }

    /// Takes out the part at `subkey` in `space`, which has to be there and to have a value of `value_bytes` bytes.
    ///
    /// # Errors
    /// As [`Context::delete_part`].
    pub(super) fn remove_ordered(
        &mut self,
        cx: &mut Context<'_>,
        space: u8,
        subkey: &[u8],
        value_bytes: usize,
    ) -> Outcome {
        self.count(-i64::from(space == ELEMENT_SPACE), -((subkey.len() + value_bytes) as i64));
        if self.packed().is_none() {
            return cx.delete_part(self.life(), space, subkey);
        }
        self.change_packed(cx, |packed| {
            packed.remove(space, subkey);
        })
    }
}
