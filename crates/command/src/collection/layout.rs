//! Which keys a part gets when its row is spread. Keys that a packed row leaves out, because they follow from the rest,
//! are made here (`docs/format/rows.md`).

use std::borrow::Cow;

use weir_model::parts::fields::{DEADLINE_SPACE, MORTAL_SPACE, mortal_value};
use weir_model::parts::{Head, PackedPart, RowType, placed, score_of, scored};

/// Space, subkey and value of a part with a key of its own.
type Keyed<'p> = (u8, Vec<u8>, Cow<'p, [u8]>);

/// Spaces, subkeys and values of `part` of the row with `head`, which is not a list.
pub(super) fn keys_of<'p>(head: &Head, part: &PackedPart<'p>) -> Vec<Keyed<'p>> {
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
        _ => vec![(space, subkey.to_vec(), value)],
    }
}
