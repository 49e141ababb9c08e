//! `ACL LOG`: what was refused to users of the tenant.

use std::sync::Arc;

use weir_command::error::{NOT_AN_INTEGER, Outcome};
use weir_command::number::parse_i64;

use crate::resp::session::Session;
use crate::store::Store;

/// How many entries are shown if the client does not say how many.
const SHOWN: i64 = 10;

pub(super) fn log<S: Store>(session: &mut Session<S>, count: Option<&[u8]>) -> Outcome {
    let account = Arc::clone(session.account()?);
    if count.is_some_and(|word| word.eq_ignore_ascii_case(b"RESET")) {
        account.users.log.clear();
        session.outbox.replies.ok();
        return Ok(());
    }
    let count = count.map_or(Ok(SHOWN), |count| parse_i64(count).ok_or(NOT_AN_INTEGER))?;
    let entries = account.users.log.newest(usize::try_from(count).unwrap_or(0));
    let now = session.outbox.server.clock.now();
    let replies = &mut session.outbox.replies;
    replies.array(entries.len());
    for entry in entries {
        replies.map(7);
        replies.bulk(b"count");
        replies.integer(entry.count as i64);
        for (name, value) in [
            ("reason", entry.refused.reason.as_bytes()),
            ("context", entry.refused.context.as_bytes()),
            ("object", &entry.refused.object),
            ("username", &entry.refused.user),
        ] {
            replies.bulk(name.as_bytes());
            replies.bulk(value);
        }
        replies.bulk(b"age-seconds");
        replies.double(now.saturating_sub(entry.at) as f64 / 1e9);
        replies.bulk(b"client-info");
        replies.bulk(entry.client.as_bytes());
    }
    Ok(())
}
