//! What one connection listens to.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_command::error::{Error, Outcome};
use weir_command::{TURN_KEYS, end_turn, glob};
use weir_io::Yield;
use weir_model::KEY_BYTES_MAX;

use super::PubSub;
use crate::drop_in_turns::drop_in_turns;
use crate::mailbox::Mailbox;
use crate::tenant::byte_limit::Held;

/// How many channels and patterns one connection may listen to.
const SUBSCRIPTIONS_MAX: usize = 10_000;

/// Bytes that a name takes besides its own: places in two trees, and what belongs to them.
const PLACE_BYTES: u64 = 512;

/// What kind of name a connection listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A channel with this name.
    Channel,
    /// All channels that match this pattern.
    Pattern,
    /// A channel with this name that belongs to a hash slot. No pattern matches it, and it is not one of the other
    /// channels.
    ShardChannel,
}

/// The number of names of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) channels: usize,
    pub(crate) patterns: usize,
    pub(crate) shard_channels: usize,
}

impl Counts {
    /// The number of all names.
    pub(crate) fn sum(self) -> usize {
        self.channels + self.patterns + self.shard_channels
    }

    /// The count that a client gets in the answer when it subscribes to a name of this kind, or unsubscribes. Channels
    /// of hash slots are counted separately.
    pub(crate) fn told(self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.channels + self.patterns,
            Kind::ShardChannel => self.shard_channels,
        }
    }
}

impl Kind {
    const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::ShardChannel];

    /// Bytes of memory that the first listener to `name` costs.
    pub(super) fn bytes(self, name: &[u8]) -> u64 {
        let glob = match self {
            Kind::Channel | Kind::ShardChannel => 0,
            // A compiled pattern has a table of bits: a row for each byte, a column for each of its elements.
            Kind::Pattern => (name.len() as u64 / 64 + 1) * 256 * 8,
        };
        2 * name.len() as u64 + glob + PLACE_BYTES
    }

    /// Returns an error if `name` is not a valid name of this kind.
    pub(crate) fn check(self, name: &[u8]) -> Outcome {
        match self {
            Kind::Channel | Kind::ShardChannel if name.len() > KEY_BYTES_MAX => {
                Err(Error::new("ERR channel exceeds maximum allowed size (65536 bytes)"))
            }
            Kind::Channel | Kind::ShardChannel => Ok(()),
            Kind::Pattern => glob::checked(name).map(drop),
        }
    }
}

/// A name that a connection listened to until it ended. Dropping it takes the connection from those who listen.
struct Left {
    pubsub: Arc<PubSub>,
    id: u64,
    kind: Kind,
    name: Arc<[u8]>,
    _held: Held,
}

impl Drop for Left {
    fn drop(&mut self) {
        self.pubsub.stop(self.kind, &self.name, self.id);
    }
}

/// What one connection listens to. Dropping it ends the subscriptions. If there are many, the connection must end, too,
/// or call [`Subscriptions::end`] first.
pub(crate) struct Subscriptions {
    pubsub: Arc<PubSub>,
    /// The number of the connection.
    id: u64,
    mailbox: Arc<Mailbox>,
    channels: BTreeMap<Arc<[u8]>, Held>,
    patterns: BTreeMap<Arc<[u8]>, Held>,
    shard_channels: BTreeMap<Arc<[u8]>, Held>,
    is_monitor: bool,
}

impl Subscriptions {
    /// No subscriptions yet, for the connection `id`, to which `mailbox` belongs.
    pub(crate) fn new(pubsub: Arc<PubSub>, id: u64, mailbox: Arc<Mailbox>) -> Self {
        pubsub.join(id, &mailbox);
        let (channels, patterns, shard_channels) = Default::default();
        Self { pubsub, id, mailbox, channels, patterns, shard_channels, is_monitor: false }
    }

    fn of(&mut self, kind: Kind) -> &mut BTreeMap<Arc<[u8]>, Held> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::ShardChannel => &mut self.shard_channels,
        }
    }

    /// Books room for all of `names`, so that the connection can listen to each of them.
    ///
    /// # Errors
    /// One of the names is too long, or there are too many.
    pub(crate) fn make_room<'a>(&self, kind: Kind, names: impl ExactSizeIterator<Item = &'a [u8]>) -> Outcome<Held> {
        if self.counts().sum() + names.len() > SUBSCRIPTIONS_MAX {
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

    /// Listens to `name`. What the name needs is taken out of `held`.
    pub(crate) fn add(&mut self, kind: Kind, name: &[u8], held: &mut Held) {
        if self.of(kind).contains_key(name) {
            return;
        }
        let name = self.pubsub.listen(kind, name, self.id, &self.mailbox, held);
        self.of(kind).insert(name, held.split(PLACE_BYTES));
    }

    /// From now on the connection receives every command of its tenant.
    pub(crate) fn monitor(&mut self) {
        self.is_monitor = true;
        self.pubsub.monitors.add(self.id, &self.mailbox);
    }

    /// Whether the connection receives every command.
    pub(crate) fn is_monitor(&self) -> bool {
        self.is_monitor
    }

    /// No longer listens to `name`.
    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) {
        if self.of(kind).remove(name).is_some() {
            self.pubsub.stop(kind, name, self.id);
        }
    }

    /// Ends all subscriptions. If there are many, others are served in between.
    pub(crate) async fn end(&mut self, yields: Yield) {
        for kind in Kind::ALL {
            for (index, name) in self.names(kind).into_iter().enumerate() {
                end_turn(yields, index).await;
                self.remove(kind, &name);
            }
        }
    }

    /// The names of one kind that the connection listens to, in order.
    pub(crate) fn names(&mut self, kind: Kind) -> Vec<Arc<[u8]>> {
        self.of(kind).keys().cloned().collect()
    }

    /// The number of names of each kind.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            channels: self.channels.len(),
            patterns: self.patterns.len(),
            shard_channels: self.shard_channels.len(),
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let mut left = Vec::with_capacity(self.counts().sum());
        for kind in Kind::ALL {
            let names = std::mem::take(self.of(kind)).into_iter();
            let (pubsub, id) = (&self.pubsub, self.id);
            left.extend(names.map(|(name, held)| Left { pubsub: Arc::clone(pubsub), id, kind, name, _held: held }));
        }
        if left.len() > TURN_KEYS {
            // Nobody would take the messages that come until all of it is done.
            self.mailbox.close();
        }
        drop_in_turns(left.into_iter(), ());
        if self.is_monitor {
            self.pubsub.monitors.remove(self.id);
        }
        self.pubsub.leave(self.id);
    }
}
