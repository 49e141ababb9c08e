//! What is known to be wrong: kinds of tampering that are not noticed yet. The list may only shrink.

use super::{Case, Stop, Wrong};

/// A kind of tampering that is known not to be noticed, in whatever way it is done.
struct Gap {
    /// The kind of file.
    kind: &'static str,
    /// What goes wrong; `None` = anything.
    wrong: Option<Wrong>,
    /// Only after this end of the last process.
    after: Option<Stop>,
}

const KNOWN: &[Gap] = &[];

/// Whether `case` is in the list.
pub fn is_known(case: &Case) -> bool {
    let (kind, wrong, stop, _) = case;
    KNOWN.iter().any(|gap| {
        gap.kind == kind
            && gap.wrong.is_none_or(|known| known == *wrong)
            && gap.after.is_none_or(|after| after == *stop)
    })
}
