//! What is told to clients that keep values, as the protocol of whoever is told has it.

use std::sync::Arc;

use weir_command::reply::Protocol;

use crate::mailbox::Speaks;

/// The channel that stands in messages to connections in RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// A message to a connection.
pub(crate) struct Message {
    /// The connection that is told.
    pub(crate) to: u64,
    /// The one that keeps the values.
    pub(crate) by: u64,
    pub(super) what: What,
}

pub(super) enum What {
    /// An encoded list of keys; `None` = all.
    Changed(Option<Vec<u8>>),
    /// The connection that is told in the place of this one is gone.
    Broken(u64),
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

impl Message {
    /// `keys` have changed, or all are gone.
    pub(super) fn changed(to: u64, by: u64, keys: Option<&[&[u8]]>) -> Self {
        let encoded = keys.map(|keys| {
            let mut list = format!("*{}\r\n", keys.len()).into_bytes();
            keys.iter().for_each(|key| bulk(&mut list, key));
            list
        });
        Self { to, by, what: What::Changed(encoded) }
    }

    /// Whoever is told in the place of `by` is gone.
    pub(super) fn broken(by: u64, gone: u64) -> Self {
        Self { to: by, by, what: What::Broken(gone) }
    }

    /// Its elements as whoever is told takes them: how many, the first ones, and the others; `None` where it takes
    /// none. In RESP2 only who has subscribed to something is told, and only in the place of another. That all keys are
    /// gone is told as in the protocol of the connection that keeps the values: as in Redis.
    pub(crate) fn encoded(self, to: Speaks, keeper: Protocol) -> Option<(usize, Arc<[u8]>, Vec<u8>)> {
        let Speaks { protocol, is_subscriber } = to;
        let is_resp3 = protocol == Protocol::Resp3;
        let nothing = if keeper == Protocol::Resp3 { &b"_\r\n"[..] } else { b"$-1\r\n" };
        let mut front = Vec::new();
        match self.what {
            What::Changed(keys) => {
                let rest = keys.unwrap_or_else(|| nothing.to_vec());
                if is_resp3 {
                    bulk(&mut front, b"invalidate");
                    return Some((2, front.into(), rest));
                }
                if !is_subscriber || self.to == self.by {
                    return None;
                }
                bulk(&mut front, b"message");
                bulk(&mut front, CHANNEL);
                Some((3, front.into(), rest))
            }
            What::Broken(gone) if is_resp3 => {
                bulk(&mut front, b"tracking-redir-broken");
                Some((2, front.into(), format!(":{gone}\r\n").into_bytes()))
            }
            What::Broken(_) => None,
        }
    }
}
