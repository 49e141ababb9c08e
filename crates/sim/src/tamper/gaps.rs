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

const KNOWN: &[Gap] = &[
    // What an anchor claims may be in the page cache only, and a power cut takes that.
    Gap { kind: "log/*.log", wrong: Some(Wrong::Lost), after: Some(Stop::PowerCut) },
    Gap { kind: "log/*.log", wrong: Some(Wrong::CheckSilent), after: Some(Stop::PowerCut) },
    Gap { kind: "log/", wrong: Some(Wrong::Lost), after: Some(Stop::PowerCut) },
    // An opening makes what it has replayed durable, and claims it a second later.
    Gap { kind: "log/", wrong: Some(Wrong::Lost), after: Some(Stop::Killed) },
    Gap { kind: "log/", wrong: Some(Wrong::CheckSilent), after: Some(Stop::Killed) },
];

/// Whether `case` is in the list.
pub fn is_known(case: &Case) -> bool {
    let (kind, wrong, stop, _) = case;
    KNOWN.iter().any(|gap| {
        gap.kind == kind
            && gap.wrong.is_none_or(|known| known == *wrong)
            && gap.after.is_none_or(|after| after == *stop)
    })
}
