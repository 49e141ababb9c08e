//! Counts of rows that were made before there were tallies: a separate part for each bucket.
//!
//! ```text
//! bucket := key: where the bucket begins        value: entries varint | children varint
//! ```
//!
//! The buckets of each of three levels stand in a space of their own, the first of a level at the empty key. A bucket
//! of the second or the third level contains the buckets of the level below that begin between its own key and the next
//! one's; `children` says how many.

use weir_model::parts::{Bucket, Tally};
use weir_model::varint;

use super::{Counted, Counts, between, damaged};
use crate::context::{Context, Part};
use crate::error::Outcome;

/// Most levels that such rows have.
pub(super) const EARLY_LEVELS_MAX: u8 = 3;

impl Counted<'_> {
    /// The space of the buckets of `level`.
    pub(super) fn early_space(&self, level: u8) -> u8 {
        self.space + level
    }

    /// The buckets of `level` from `key` on, up to `end`, in the form of a tally.
    pub(super) async fn early(
        &self,
        cx: &mut Context<'_>,
        level: u8,
        key: Vec<u8>,
        end: Option<Vec<u8>>,
    ) -> Outcome<Counts> {
        if level > EARLY_LEVELS_MAX {
            return Err(damaged());
        }
        let space = self.early_space(level);
        let (mut parts, mut from) = (Vec::new(), &key);
        // There may be very many dead parts in front of the second bucket, so they are skipped.
        if key.is_empty() && !self.second.is_empty() {
            parts.extend(cx.part(self.key, self.life, space, &[]).await?);
            from = &self.second;
        }
        parts.extend(self.list(cx, space, between(from, end.as_deref())).await?);
        if parts.first().is_none_or(|first| first.subkey != key) {
            return Err(damaged());
        }
        let buckets = parts.into_iter().map(bucket).collect::<Outcome<Vec<Bucket>>>()?;
        let tally = Tally::encode(&buckets).into();
        Ok(Counts { level, key, tally, early: buckets.into_iter().map(|bucket| bucket.key).collect() })
    }
}

fn bucket(part: Part) -> Outcome<Bucket> {
    let mut value = &part.value[..];
    let counts = varint::take(&mut value).zip(varint::take(&mut value)).filter(|_| value.is_empty());
    let (entries, _) = counts.ok_or_else(damaged)?;
    Ok(Bucket { key: part.subkey, entries })
}
