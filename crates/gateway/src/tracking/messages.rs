//! Messages to clients that keep values, in the protocol of the connection that receives them.

use std::sync::{Arc, OnceLock};

use weir_command::reply::Protocol;

use crate::mailbox::{Shared, Speaks};

/// The channel named in messages to connections in RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// To list so many bytes of encoded keys takes as long as a message to one receiver.
const LISTED_KEY_BYTES: usize = 16;

/// The connection that receives a message, and the connection that keeps the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receiver {
    pub(crate) told: u64,
    pub(crate) keeper: u64,
}

/// A message to some connections.
pub(crate) struct Message {
    pub(crate) receivers: Vec<Receiver>,
    /// How many connections were looked at to find these.
    looked_at: usize,
    news: Arc<News>,
}

/// What is told. It is encoded once, however many are told, and in however many messages.
pub(super) struct News {
    what: What,
    /// The encoded elements that the messages share, once they are needed: for those who keep the values in RESP2, and
    /// in RESP3.
    rests: [OnceLock<Shared>; 2],
}

enum What {
    /// An encoded list of keys that clients have read.
    Changed(Vec<u8>),
    /// An encoded list of keys that begin with a prefix.
    OfPrefix(Vec<u8>),
    /// All keys are gone.
    Flushed,
    /// The connection that receives messages in the keeper's place is gone.
    Broken(u64),
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// An encoded list of `keys`.
fn list<'k>(keys: impl Iterator<Item = &'k [u8]>) -> Vec<u8> {
    let (mut elements, mut count) = (Vec::new(), 0_usize);
    for key in keys {
        bulk(&mut elements, key);
        count += 1;
    }
    [format!("*{count}\r\n").as_bytes(), &elements].concat()
}

impl News {
    fn new(what: What) -> Arc<Self> {
        Arc::new(Self { what, rests: Default::default() })
    }

    /// `key`, which clients have read, has changed.
    pub(super) fn changed(key: &[u8]) -> Arc<Self> {
        Self::new(What::Changed(list(std::iter::once(key))))
    }

    /// `keys`, which begin with a prefix, have changed.
    pub(super) fn of_prefix<'k>(keys: impl Iterator<Item = &'k [u8]>) -> Arc<Self> {
        Self::new(What::OfPrefix(list(keys)))
    }

    /// All keys are gone.
    pub(super) fn flushed() -> Arc<Self> {
        Self::new(What::Flushed)
    }

    /// Whether this is about keys that clients have read.
    pub(super) fn is_of_read_keys(&self) -> bool {
        matches!(self.what, What::Changed(_))
    }
}

impl Message {
    /// `news` for `receivers`, who were found among `looked_at` connections.
    pub(super) fn new(receivers: Vec<Receiver>, looked_at: usize, news: &Arc<News>) -> Self {
        Self { receivers, looked_at, news: Arc::clone(news) }
    }

    /// The connection `gone`, which received messages for `keeper`, is gone.
    pub(super) fn broken(keeper: u64, gone: u64) -> Self {
        Self { receivers: vec![Receiver { told: keeper, keeper }], looked_at: 1, news: News::new(What::Broken(gone)) }
    }

    /// How many elements the message has for `receiver`, and the first of them, encoded. `None` if the receiver takes
    /// no such message. In RESP2 only a connection with subscriptions takes messages, and only those of another
    /// connection.
    pub(crate) fn front(&self, receiver: Receiver, speaks: Speaks) -> Option<(usize, Vec<u8>)> {
        let is_resp3 = speaks.protocol == Protocol::Resp3;
        let mut front = Vec::new();
        match self.news.what {
            What::Changed(_) | What::OfPrefix(_) | What::Flushed if is_resp3 => bulk(&mut front, b"invalidate"),
            What::Changed(_) | What::OfPrefix(_) | What::Flushed => {
                if !speaks.is_subscriber || receiver.told == receiver.keeper {
                    return None;
                }
                bulk(&mut front, b"message");
                bulk(&mut front, CHANNEL);
                return Some((3, front));
            }
            What::Broken(_) if is_resp3 => bulk(&mut front, b"tracking-redir-broken"),
            What::Broken(_) => return None,
        }
        Some((2, front))
    }

    /// The other elements, encoded. That all keys are gone is encoded in the protocol of the connection that keeps the
    /// values, `keeper`, as in Redis.
    pub(crate) fn rest(&self, keeper: Protocol) -> Vec<u8> {
        match &self.news.what {
            What::Changed(keys) | What::OfPrefix(keys) => keys.clone(),
            What::Flushed if keeper == Protocol::Resp3 => b"_\r\n".to_vec(),
            What::Flushed => b"$-1\r\n".to_vec(),
            What::Broken(gone) => format!(":{gone}\r\n").into_bytes(),
        }
    }

    /// How many messages to one receiver take as long as this one: it may have to list many keys, and receivers
    /// were looked for.
    pub(crate) fn work(&self) -> usize {
        let listed = match &self.news.what {
            What::Changed(keys) | What::OfPrefix(keys) => keys.len() / LISTED_KEY_BYTES,
            What::Flushed | What::Broken(_) => 0,
        };
        self.looked_at.max(listed)
    }

    /// Where the other elements are shared with further messages of the same news.
    pub(crate) fn shared_rest(&self, keeper: Protocol) -> &OnceLock<Shared> {
        &self.news.rests[usize::from(keeper == Protocol::Resp3)]
    }
}
