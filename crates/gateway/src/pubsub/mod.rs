//! Publish and subscribe: which of a tenant's connections listens to what. Nothing is stored, and a connection that was
//! not listening is not told later. Channels have nothing to do with keys or databases.
//!
//! [`subscriptions`] is one connection's side, [`publish`] sends to all who listen, and [`monitors`] receive every
//! command.
//!
//! Lock order: the order of messages (async, over one message), the registry, one channel's or pattern's listeners, a
//! mailbox. Only the first is held over an await. The members' lock is taken alone.

mod monitors;
mod publish;
mod subscriptions;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_command::TURN_KEYS;
use weir_command::glob::{self, Glob};
use weir_io::Yield;

use self::monitors::Monitors;
pub(crate) use self::subscriptions::{Counts, Kind, Subscriptions};
use crate::mailbox::Mailbox;
use crate::tenant::byte_limit::{ByteLimit, Held};

/// Bytes of one tenant's messages that may wait for listening connections. A message counts once, however many
/// mailboxes it waits in, plus its place in each mailbox. When there is no room, the slowest connections are cut.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;

/// Bytes that the names of channels and patterns may take to which one tenant's connections listen.
const NAME_BYTES_MAX: u64 = 64 << 20;

/// Listeners by the number of their connection.
type Listeners = BTreeMap<u64, Arc<Mailbox>>;

/// A channel or a pattern that somebody listens to.
struct Topic {
    name: Arc<[u8]>,
    /// The encoded elements with which a message to its listeners begins.
    front: Arc<[u8]>,
    /// Set for a pattern.
    glob: Option<Glob>,
    /// Books what the topic takes besides its listeners.
    _held: Held,
    listeners: Mutex<Listeners>,
}

/// The channels, patterns and listeners of one tenant.
pub(crate) struct PubSub {
    registry: Mutex<Registry>,
    /// The mailbox of every connection that may be sent anything, by its number.
    members: Mutex<Listeners>,
    /// The connections that receive every command.
    monitors: Monitors,
    /// The empty front of a line.
    nothing: Arc<[u8]>,
    /// Held while a message is sent: it goes to all listeners before the next message goes to any. So all of them see
    /// the messages of a channel in the same order.
    order: tokio::sync::Mutex<()>,
    messages: Arc<ByteLimit>,
    names: Arc<ByteLimit>,
}

struct Registry {
    channels: BTreeMap<Arc<[u8]>, Arc<Topic>>,
    /// Channels that belong to a hash slot. No pattern matches them, and their names are separate from those of other
    /// channels.
    shard_channels: BTreeMap<Arc<[u8]>, Arc<Topic>>,
    patterns: BTreeMap<Arc<[u8]>, Arc<Topic>>,
    /// The front of a message to a channel.
    message: Arc<[u8]>,
    /// The front of a message to a channel of a hash slot.
    shard_message: Arc<[u8]>,
}

impl Default for PubSub {
    fn default() -> Self {
        let registry = Registry {
            channels: BTreeMap::new(),
            shard_channels: BTreeMap::new(),
            patterns: BTreeMap::new(),
            message: Arc::from(&b"$7\r\nmessage\r\n"[..]),
            shard_message: Arc::from(&b"$8\r\nsmessage\r\n"[..]),
        };
        Self {
            registry: Mutex::new(registry),
            members: Mutex::default(),
            monitors: Monitors::default(),
            nothing: Arc::default(),
            order: tokio::sync::Mutex::new(()),
            messages: ByteLimit::new(MESSAGE_BYTES_MAX),
            names: ByteLimit::new(NAME_BYTES_MAX),
        }
    }
}

impl Registry {
    fn topics(&self, kind: Kind) -> &BTreeMap<Arc<[u8]>, Arc<Topic>> {
        match kind {
            Kind::Channel => &self.channels,
            Kind::ShardChannel => &self.shard_channels,
            Kind::Pattern => &self.patterns,
        }
    }

    fn topics_mut(&mut self, kind: Kind) -> &mut BTreeMap<Arc<[u8]>, Arc<Topic>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::ShardChannel => &mut self.shard_channels,
            Kind::Pattern => &mut self.patterns,
        }
    }

    fn topic(&self, kind: Kind, name: &[u8]) -> Option<&Arc<Topic>> {
        self.topics(kind).get(name)
    }

    /// A page of topics of this kind, in the order of their names.
    fn page(&self, kind: Kind, from: Bound<Arc<[u8]>>) -> Vec<Arc<Topic>> {
        let behind = self.topics(kind).range::<Arc<[u8]>, _>((from, Bound::Unbounded));
        behind.take(TURN_KEYS).map(|(_, topic)| Arc::clone(topic)).collect()
    }

    fn add(&mut self, kind: Kind, topic: Arc<Topic>) {
        self.topics_mut(kind).insert(Arc::clone(&topic.name), topic);
    }

    fn remove(&mut self, kind: Kind, name: &[u8]) {
        self.topics_mut(kind).remove(name);
    }
}

impl PubSub {
    /// From now on the connection `id` may listen, with `mailbox`.
    fn join(&self, id: u64, mailbox: &Arc<Mailbox>) {
        self.members.lock().insert(id, Arc::clone(mailbox));
    }

    /// What the connections `ids` listen to: each name, with those of them that listen to it.
    pub(crate) async fn heard_by(&self, ids: &BTreeSet<u64>, yields: Yield) -> Vec<(Kind, Arc<[u8]>, Vec<u64>)> {
        let mut heard = Vec::new();
        for kind in [Kind::Channel, Kind::ShardChannel, Kind::Pattern] {
            let mut from = Bound::Unbounded;
            loop {
                let page = self.registry.lock().page(kind, from);
                let Some(last) = page.last() else { break };
                from = Bound::Excluded(Arc::clone(&last.name));
                for topic in page {
                    let listeners = topic.listeners.lock();
                    let who: Vec<u64> = ids.iter().filter(|id| listeners.contains_key(id)).copied().collect();
                    if !who.is_empty() {
                        heard.push((kind, Arc::clone(&topic.name), who));
                    }
                }
                yields.now().await;
            }
        }
        heard
    }

    /// The connection `id` no longer listens to anything.
    fn leave(&self, id: u64) {
        self.members.lock().remove(&id);
    }

    /// The connection `id` listens with `mailbox`. `held` has room for the name; what the name needs is taken out of
    /// it.
    fn listen(&self, kind: Kind, name: &[u8], id: u64, mailbox: &Arc<Mailbox>, held: &mut Held) -> Arc<[u8]> {
        // Compiling a long pattern takes some time, so it is done outside the lock.
        let is_new = self.registry.lock().topic(kind, name).is_none();
        let glob = (kind == Kind::Pattern && is_new).then(|| Glob::new(name));
        let mut registry = self.registry.lock();
        let topic = match registry.topic(kind, name) {
            Some(topic) => Arc::clone(topic),
            None => {
                let front = match kind {
                    Kind::Channel => Arc::clone(&registry.message),
                    Kind::ShardChannel => Arc::clone(&registry.shard_message),
                    Kind::Pattern => publish::front_of(name),
                };
                // The pattern's last listener may have stopped just now.
                let glob = glob.or_else(|| (kind == Kind::Pattern).then(|| Glob::new(name)));
                let held = held.split(kind.bytes(name));
                let topic =
                    Arc::new(Topic { name: name.into(), front, glob, _held: held, listeners: Mutex::default() });
                registry.add(kind, Arc::clone(&topic));
                topic
            }
        };
        topic.listeners.lock().insert(id, Arc::clone(mailbox));
        Arc::clone(&topic.name)
    }

    /// The connection `id` no longer listens: after this call nothing is put into its mailbox for this name.
    fn stop(&self, kind: Kind, name: &[u8], id: u64) {
        let mut registry = self.registry.lock();
        let Some(topic) = registry.topic(kind, name) else { return };
        let mut listeners = topic.listeners.lock();
        listeners.remove(&id);
        let is_over = listeners.is_empty();
        drop(listeners);
        if is_over {
            registry.remove(kind, name);
        }
    }

    /// How many connections listen to the channel called `channel`, of this kind.
    pub(crate) fn listeners(&self, kind: Kind, channel: &[u8]) -> usize {
        let topic = self.registry.lock().topic(kind, channel).cloned();
        topic.map_or(0, |topic| topic.listeners.lock().len())
    }

    /// Whether nobody listens to any channel or pattern.
    pub(crate) fn is_silent(&self) -> bool {
        let registry = self.registry.lock();
        registry.channels.is_empty() && registry.patterns.is_empty()
    }

    /// How many names of each kind somebody listens to.
    pub(crate) fn counts(&self) -> Counts {
        let registry = self.registry.lock();
        Counts {
            channels: registry.channels.len(),
            patterns: registry.patterns.len(),
            shard_channels: registry.shard_channels.len(),
        }
    }

    /// The channels of one kind that somebody listens to, and that match `pattern` if there is one.
    pub(crate) async fn channels(&self, kind: Kind, pattern: Option<&[u8]>, yields: Yield) -> Vec<Arc<[u8]>> {
        let (glob, mut turn) = (pattern.map(Glob::new), glob::Turn::new(yields));
        let (mut found, mut from) = (Vec::new(), Bound::Unbounded);
        loop {
            let page = self.registry.lock().page(kind, from);
            let Some(last) = page.last() else { return found };
            from = Bound::Excluded(Arc::clone(&last.name));
            for topic in page {
                let matches = match &glob {
                    Some(glob) => glob.matches_in_turns(&topic.name, &mut turn).await,
                    None => true,
                };
                if matches {
                    found.push(Arc::clone(&topic.name));
                }
            }
            yields.now().await;
        }
    }
}

#[cfg(test)]
mod tests;
