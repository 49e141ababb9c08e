//! What one connection listens to.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_command::error::{Error, Outcome};
use weir_command::glob;
use weir_model::KEY_BYTES_MAX;

use super::PubSub;
use crate::auth::byte_limit::Held;
use crate::mailbox::Mailbox;

/// Channels and patterns that one connection listens to, at most.
const SUBSCRIPTIONS_MAX: usize = 10_000;

/// What a name takes beside its bytes: places in two trees, and what belongs to it.
const PLACE_BYTES: u64 = 512;

/// What is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A channel with this name.
    Channel,
    /// All channels that match it.
    Pattern,
}

impl Kind {
    /// Bytes of memory that the first listener to `name` costs.
    pub(super) fn bytes(self, name: &[u8]) -> u64 {
        let glob = match self {
            Kind::Channel => 0,
            // A pattern made ready has a table of bits: a row for each byte, a column for each of its elements.
            Kind::Pattern => (name.len() as u64 / 64 + 1) * 256 * 8,
        };
        2 * name.len() as u64 + glob + PLACE_BYTES
    }

    /// What is wrong with `name`.
    pub(crate) fn check(self, name: &[u8]) -> Outcome {
        match self {
            Kind::Channel if name.len() > KEY_BYTES_MAX => {
                Err(Error::new("ERR channel exceeds maximum allowed size (65536 bytes)"))
            }
            Kind::Channel => Ok(()),
            Kind::Pattern => glob::checked(name).map(drop),
        }
    }
}

/// See the module. Ends when dropped.
pub(crate) struct Subscriptions {
    pubsub: Arc<PubSub>,
    /// The number of the connection.
    id: u64,
    mailbox: Arc<Mailbox>,
    channels: BTreeMap<Arc<[u8]>, Held>,
    patterns: BTreeMap<Arc<[u8]>, Held>,
}

impl Subscriptions {
    /// The connection `id`, to which `mailbox` belongs, listens to nothing yet.
    pub(crate) fn new(pubsub: Arc<PubSub>, id: u64, mailbox: Arc<Mailbox>) -> Self {
        pubsub.join(id, &mailbox);
        Self { pubsub, id, mailbox, channels: BTreeMap::new(), patterns: BTreeMap::new() }
    }

    fn of(&mut self, kind: Kind) -> &mut BTreeMap<Arc<[u8]>, Held> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
        }
    }

    /// Makes room for all of `names`, so that each of them can be listened to.
    ///
    /// # Errors
    /// One of them is too long, or there are too many.
    pub(crate) fn make_room<'a>(&self, kind: Kind, names: impl ExactSizeIterator<Item = &'a [u8]>) -> Outcome<Held> {
        if self.count() + names.len() > SUBSCRIPTIONS_MAX {
            return Err(Error::new("ERR a connection subscribes to at most 10000 channels and patterns"));
        }
        let mut bytes = 0;
        for name in names {
            kind.check(name)?;
            bytes += kind.bytes(name) + PLACE_BYTES;
        }
        let held = self.pubsub.names.try_hold(bytes);
        held.ok_or(Error::new("ERR too many subscriptions: unsubscribe from some, or use patterns"))
    }

    /// Listens to `name`, which needs what is taken out of `held`.
    pub(crate) fn add(&mut self, kind: Kind, name: &[u8], held: &mut Held) {
        if self.of(kind).contains_key(name) {
            return;
        }
        let name = self.pubsub.listen(kind, name, self.id, &self.mailbox, held);
        self.of(kind).insert(name, held.split(PLACE_BYTES));
    }

    /// Listens to `name` no more.
    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) {
        if self.of(kind).remove(name).is_some() {
            self.pubsub.stop(kind, name, self.id);
        }
    }

    /// What it listens to of one kind, in order.
    pub(crate) fn names(&mut self, kind: Kind) -> Vec<Arc<[u8]>> {
        self.of(kind).keys().cloned().collect()
    }

    /// Channels and patterns.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.channels.len(), self.patterns.len())
    }

    /// Both together.
    pub(crate) fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        for kind in [Kind::Channel, Kind::Pattern] {
            for name in std::mem::take(self.of(kind)).into_keys() {
                self.pubsub.stop(kind, &name, self.id);
            }
        }
        self.pubsub.leave(self.id);
    }
}
