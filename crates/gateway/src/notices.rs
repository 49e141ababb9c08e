//! Log lines about clients that are not let in or that reach a limit. The first event is logged at once; after that,
//! one line a minute says how many there were.
//!
//! A separate line is kept for each kind, tenant and network (of an IPv6 address the first 64 bits), so that a flood
//! from one place hides nothing else. The number of separate lines is limited; events beyond it share one line for
//! their kind. A name is shown only if a tenant has it, because what a client sends as its name may be a secret (S4).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::Nanos;

use crate::auth::{Refusal, network};
use crate::tls::Failure;

/// Nanoseconds between two lines of one kind about one tenant and network.
const EVERY: Nanos = 60_000_000_000;
/// How many lines may be kept apart.
const APART_MAX: usize = 4096;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// A login or a session was refused, for the reason at this place of [`Refusal::REASONS`].
    Login(usize),
    /// The node already has as many connections as it may have.
    NodeFull,
    /// A tenant that holds as much as it may on disk wanted to store more.
    DiskFull,
    /// A command was refused because the tenant's units were used up.
    Throttled,
    /// A connection was cut because it does not take what is sent to it.
    SlowListener,
    /// A TLS handshake failed.
    Handshake(Failure),
    /// A client spoke TLS to a port without TLS.
    TlsOnPlain,
}

impl What {
    fn words(self) -> &'static str {
        match self {
            What::Login(reason) => match Refusal::REASONS.get(reason) {
                Some(&"wrong_secret") => "login failed: there is no such name, or the secret is wrong",
                Some(&"too_many_failures") => "login refused without a check: there were too many wrong secrets before",
                Some(&"busy") => "login refused without a check: too many logins are being checked",
                Some(&"suspended") => "login refused: the tenant is suspended",
                _ => "connection refused: the tenant has as many connections as it may have",
            },
            What::NodeFull => "connection refused: there are as many connections as connections_max allows",
            What::DiskFull => "write refused: the tenant holds as much on disk as it may",
            What::Throttled => "command refused: the tenant's units are used up",
            What::SlowListener => "connection cut: it does not take the messages that it has subscribed to",
            What::Handshake(failure) => failure.words(),
            What::TlsOnPlain => {
                "connection refused: the client speaks TLS to the port without TLS; connect to the port of \
                 `tls_listen`, or switch TLS off in the client"
            }
        }
    }
}

/// An event to log: what happened, to whom, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) what: What,
    /// The tenant's name, if the tenant exists and is known.
    pub(crate) tenant: Option<Arc<str>>,
    /// Where the client came from, if that matters.
    pub(crate) address: Option<IpAddr>,
}

type Key = (What, Option<Arc<str>>, IpAddr);

struct Kept {
    said: Nanos,
    /// Events since then.
    more: u64,
    address: Option<IpAddr>,
}

/// The lines that were logged lately, and the events counted since.
#[derive(Default)]
pub(crate) struct Notices(Mutex<BTreeMap<Key, Kept>>);

impl Notices {
    /// Writes the line at once, or counts the event.
    pub(crate) fn tell(&self, notice: Notice, now: Nanos) {
        if self.is_due(&notice, now) {
            say(&notice, 0);
        }
    }

    fn is_due(&self, notice: &Notice, now: Nanos) -> bool {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let mut key = (notice.what, notice.tenant.clone(), notice.address.map_or(nowhere, network));
        let mut kept = self.0.lock();
        if !kept.contains_key(&key) && kept.len() >= APART_MAX {
            // From here on new keys share one line of their kind, until a sweep makes room.
            key = (notice.what, None, nowhere);
        }
        match kept.get_mut(&key) {
            Some(kept) => {
                kept.more += 1;
                kept.address = notice.address;
                false
            }
            None => {
                kept.insert(key, Kept { said: now, more: 0, address: notice.address });
                true
            }
        }
    }

    /// Once a second: logs what was counted, and forgets what has not happened again.
    pub(crate) fn sweep(&self, now: Nanos) {
        for (notice, more) in self.due(now) {
            say(&notice, more);
        }
    }

    fn due(&self, now: Nanos) -> Vec<(Notice, u64)> {
        let mut due = Vec::new();
        self.0.lock().retain(|(what, tenant, _), kept| {
            if now.saturating_sub(kept.said) < EVERY {
                return true;
            }
            let more = std::mem::take(&mut kept.more);
            if more > 0 {
                kept.said = now;
                due.push((Notice { what: *what, tenant: tenant.clone(), address: kept.address }, more));
            }
            more > 0
        });
        due
    }
}

fn say(notice: &Notice, more: u64) {
    let tenant = notice.tenant.as_deref();
    let address = notice.address.map(tracing::field::display);
    let words = notice.what.words();
    match more {
        0 => tracing::warn!(tenant, address, "{words}"),
        _ => tracing::warn!(tenant, last_address = address, more, "{words} (and {more} more in the last minute)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(tenant: Option<&str>, address: [u8; 4]) -> Notice {
        Notice { what: What::Login(0), tenant: tenant.map(Into::into), address: Some(address.into()) }
    }

    #[test]
    fn the_first_is_said_and_the_others_are_counted() {
        let notices = Notices::default();
        let wrong = notice(Some("shop"), [10, 0, 0, 1]);
        assert!(notices.is_due(&wrong, 0));
        (0..500).for_each(|at| assert!(!notices.is_due(&wrong, at)));
        assert!(notices.is_due(&notice(Some("shop"), [10, 0, 0, 2]), 5), "another address");
        assert!(notices.is_due(&notice(None, [10, 0, 0, 1]), 5), "another name");
        assert!(notices.is_due(&Notice { what: What::DiskFull, ..wrong.clone() }, 5), "another matter");
        assert!(notices.due(EVERY - 1).is_empty());
        assert_eq!(notices.due(EVERY), [(wrong.clone(), 500)]);
        assert!(!notices.is_due(&wrong, EVERY + 1), "still a line a minute");
        assert_eq!(notices.due(2 * EVERY), [(wrong.clone(), 1)]);
        assert!(notices.due(3 * EVERY).is_empty() && notices.0.lock().is_empty(), "it has ended");
        assert!(notices.is_due(&wrong, 3 * EVERY));
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost_without_being_counted() {
        let notices = Notices::default();
        let from = |number: u32| notice(None, number.to_be_bytes());
        let said = (1..=10_000).filter(|&number| notices.is_due(&from(number), 0)).count();
        assert_eq!((said, notices.0.lock().len()), (APART_MAX + 1, APART_MAX + 1), "and one that the others share");
        let counted: u64 = notices.due(EVERY).iter().map(|(_, more)| more).sum();
        assert_eq!(said as u64 + counted, 10_000);
    }

    #[test]
    fn every_reason_has_words() {
        let words: Vec<_> = (0..Refusal::REASONS.len()).map(|reason| What::Login(reason).words()).collect();
        assert!(words.iter().enumerate().all(|(index, words_of)| !words[..index].contains(words_of)), "{words:?}");
    }
}
