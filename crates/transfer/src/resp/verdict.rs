//! Decides what a refusal means.

/// What to do about an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: what was asked for has been done already.
    Fine,
    /// Ask again after this many milliseconds.
    Again(u64),
    /// Nobody knows: a write whose log failed may turn out to be done once the log is replaced.
    Unclear,
    /// The target does not take this one request.
    Refused,
    /// The target will take nothing any more.
    End,
}

/// How the error begins that a request meets whose partition is being closed.
const CLOSING: &str = "ERR storage: it is being closed";

/// What `error` means for a request that only reads: a read is done or not, so that it may be asked for once more.
pub fn judge_read(error: &str) -> Verdict {
    if error.starts_with(CLOSING) { Verdict::Again(100) } else { judge(error, false) }
}

/// What `error` means. If the request `may_be_done` already, an error that says so is no mistake.
pub fn judge(error: &str, may_be_done: bool) -> Verdict {
    let name = error.split(' ').next().unwrap_or_default();
    match name {
        "THROTTLED" => {
            let told = error.split(' ').find_map(|word| word.strip_prefix("retry_in_ms="));
            Verdict::Again(told.and_then(|ms| ms.parse().ok()).unwrap_or(100).clamp(1, 10_000))
        }
        "TRYAGAIN" | "LOADING" => Verdict::Again(100),
        "BUSYGROUP" if may_be_done => Verdict::Fine,
        "ERR" if may_be_done && error.contains("equal or smaller than the target stream") => Verdict::Fine,
        // Not "this cannot be done": that is the same however often it is asked for.
        "ERR" if error.starts_with("ERR storage: the disk") || error.starts_with(CLOSING) => Verdict::Unclear,
        "OOM" | "MISCONF" | "NOPERM" | "NOAUTH" | "WRONGPASS" | "READONLY" => Verdict::End,
        _ => Verdict::Refused,
    }
}

/// How errors begin by which a server refuses a connection that it may take later.
const FULL: [&str; 3] = ["ERR max number of clients", "ERR too many logins", "ERR too many wrong passwords"];

/// Whether `error` refuses a connection only for now: until another one ends, or a wait is over.
pub fn is_full(error: &str) -> bool {
    FULL.iter().any(|beginning| error.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_judged() {
        assert_eq!(judge("THROTTLED retry_in_ms=250 reason=tenant_wcu", false), Verdict::Again(250));
        assert_eq!(judge("WRONGTYPE Operation against", false), Verdict::Refused);
        assert_eq!(judge("OOM command not allowed", false), Verdict::End);
        assert_eq!(judge("ERR storage: the disk failed, the server's log says how", false), Verdict::Unclear);
        assert_eq!(judge("ERR storage: it is being closed, try again", true), Verdict::Unclear);
        assert_eq!(judge_read("ERR storage: it is being closed, try again"), Verdict::Again(100));
        assert_eq!(judge_read("OOM command not allowed"), Verdict::End);
        assert_eq!(judge("ERR storage: this cannot be done", false), Verdict::Refused);
        let known = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
        assert_eq!((judge(known, true), judge(known, false)), (Verdict::Fine, Verdict::Refused));
    }
}
