//! Which keys a part gets when its row is spread: what a packed row leaves out, because it follows from the rest, is
//! made here (`docs/format/rows.md`).

use weir_model::parts::{Head, PackedPart, RowType, placed, put_i64, score_of, scored, take_i64};

/// Spaces, subkeys and values of `part`, the one with the number `index` of the row that has `head`.
pub(super) fn keys_of<'p>(head: &Head, index: usize, part: &PackedPart<'p>) -> Vec<(u8, Vec<u8>, &'p [u8])> {
    let PackedPart { space, subkey, value, .. } = *part;
    match (head.kind, space) {
        (RowType::Hash | RowType::Set, 0) => vec![(0, placed(head.version, subkey), value)],
        (RowType::SortedSet, 0) => {
            let (by_score, beside) = scored(score_of(value).unwrap_or_default(), subkey);
            vec![(0, placed(head.version, subkey), value), (1, by_score, beside)]
        }
        (RowType::List, 0) => {
            let first = take_i64(&mut &head.detail[..]).unwrap_or(0);
            let mut position = Vec::new();
            put_i64(&mut position, first + index as i64);
            vec![(0, position, value)]
        }
        _ => vec![(space, subkey.to_vec(), value)],
    }
}
