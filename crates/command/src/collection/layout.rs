//! Which keys a part gets when its row is spread. Keys that a packed row leaves out, because they follow from the rest,
//! are made here (`docs/format/rows.md`).

use std::borrow::Cow;

use weir_model::parts::fields::{DEADLINE_SPACE, MORTAL_SPACE, mortal_value};
use weir_model::parts::{Head, PackedPart, RowType, placed, put_i64, score_of, scored, take_i64};

/// Space, subkey and value of a part with a key of its own.
type Keyed<'p> = (u8, Vec<u8>, Cow<'p, [u8]>);

/// Spaces, subkeys and values of `part`, which has the number `index` in the row with `head`.
pub(super) fn keys_of<'p>(head: &Head, index: usize, part: &PackedPart<'p>) -> Vec<Keyed<'p>> {
    let PackedPart { space, subkey, value, expire_at_ms } = *part;
    let value = Cow::Borrowed(value);
    match (head.kind, space, expire_at_ms) {
        (RowType::Hash, 0, Some(at_ms)) => {
            let placed = placed(head.version, subkey);
            let deadline = [&at_ms.to_be_bytes()[..], &placed].concat();
            let value = mortal_value(at_ms, &value);
            vec![(MORTAL_SPACE, placed, value.into()), (DEADLINE_SPACE, deadline, Cow::Borrowed(&[]))]
        }
        (RowType::Hash | RowType::Set, 0, _) => vec![(0, placed(head.version, subkey), value)],
        (RowType::SortedSet, 0, _) => {
            let (by_score, beside) = scored(score_of(&value).unwrap_or_default(), subkey);
            vec![(0, placed(head.version, subkey), value), (1, by_score, beside.into())]
        }
        (RowType::List, 0, _) => {
            let first = take_i64(&mut &head.detail[..]).unwrap_or(0);
            let mut position = Vec::new();
            put_i64(&mut position, first + index as i64);
            vec![(0, position, value)]
        }
        _ => vec![(space, subkey.to_vec(), value)],
    }
}
