//! Clients that keep values on their side (`CLIENT TRACKING`), and are told when these are no longer true.
//!
//! A key that such a client reads is remembered *before* it is read, so that whoever changes the key afterwards finds
//! the client here. The first change tells the client, and forgets that it has the key. Clients in broadcast mode are
//! told of all keys that begin with one of their prefixes, and what they read is not remembered.
//!
//! As in Redis, keys are known by their names, whatever database they are in. The table is bounded: beyond its limit a
//! key is forgotten, and the clients that have it are told as if the key had changed.
//!
//! Lock order: the table, then a mailbox.

mod messages;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_command::TURN_KEYS;

use self::messages::News;
pub(crate) use self::messages::{Message, Receiver};
use self::table::Table;
use crate::mailbox::Recipient;

/// How many different prefixes a tenant's connections may track. All of them are gone through whenever keys have
/// changed.
const PREFIXES_MAX: usize = 10_000;

/// What a client wants to be told, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mode {
    pub(crate) broadcast: bool,
    /// Only keys read after `CLIENT CACHING YES`.
    pub(crate) opt_in: bool,
    /// All keys but those read after `CLIENT CACHING NO`.
    pub(crate) opt_out: bool,
    /// Not the client's own changes.
    pub(crate) no_loop: bool,
    /// The connection that receives the messages in the client's place.
    pub(crate) redirect: Option<u64>,
}

/// What `CLIENT LIST` shows of a client that tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracks {
    pub(crate) broadcast: bool,
    /// The connection that receives the messages in the client's place.
    pub(crate) redirect: Option<u64>,
    /// Whether the client was told that the connection in its place is gone.
    pub(crate) is_broken: bool,
}

/// A client that tracks.
struct Tracker {
    mode: Mode,
    /// The connection that receives the messages; `None` = the client's own.
    target: Option<(u64, Weak<dyn Recipient>)>,
    prefixes: BTreeSet<Arc<[u8]>>,
    /// Whether the client was told that the connection in its place is gone.
    is_broken: bool,
}

/// The clients of one tenant that track.
#[derive(Default)]
pub(crate) struct Tracking {
    /// The number of clients that track.
    count: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    trackers: BTreeMap<u64, Tracker>,
    table: Table,
    /// For each prefix, the clients in broadcast mode that are told of its keys.
    prefixes: BTreeMap<Arc<[u8]>, BTreeSet<u64>>,
    /// Keys changed since the last messages to clients in broadcast mode, and which connection was the last to change
    /// each of them. That connection knows what it has written, unless another one has changed the key since.
    changed: BTreeMap<Box<[u8]>, u64>,
}

/// Clients in broadcast mode that are told of the same changed keys.
struct Group {
    prefix: Arc<[u8]>,
    /// The connection whose own changes are left out.
    besides: Option<u64>,
    keepers: Vec<u64>,
}

/// The sizes of a tenant's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrackingCounts {
    pub(crate) clients: usize,
    pub(crate) keys: usize,
    pub(crate) items: usize,
    pub(crate) prefixes: usize,
}

impl Tracking {
    /// Whether any client tracks.
    #[inline]
    pub(crate) fn is_in_use(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// From now on the connection `id` tracks in `mode`, with further prefixes. `false` if there would be too many
    /// prefixes.
    #[must_use]
    pub(crate) fn enable(&self, id: u64, mode: Mode, target: Option<Weak<dyn Recipient>>, prefixes: &[&[u8]]) -> bool {
        let mut inner = self.inner.lock();
        let new = prefixes.iter().filter(|&&prefix| !inner.prefixes.contains_key(prefix)).count();
        if inner.prefixes.len() + new > PREFIXES_MAX {
            return false;
        }
        let mut kept = inner.trackers.remove(&id).map(|tracker| tracker.prefixes).unwrap_or_default();
        if mode.broadcast {
            // Without a prefix the client is told of all keys.
            let all: &[&[u8]] = if kept.is_empty() && prefixes.is_empty() { &[b""] } else { &[] };
            for &prefix in prefixes.iter().chain(all) {
                kept.insert(inner.listen(prefix, id));
            }
        }
        let target = mode.redirect.zip(target);
        inner.trackers.insert(id, Tracker { mode, target, prefixes: kept, is_broken: false });
        self.count.store(inner.trackers.len(), Ordering::SeqCst);
        true
    }

    /// The connection `id` no longer tracks.
    pub(crate) fn disable(&self, id: u64) {
        let mut inner = self.inner.lock();
        if let Some(tracker) = inner.trackers.remove(&id) {
            tracker.prefixes.iter().for_each(|prefix| inner.stop(prefix, id));
        }
        if inner.trackers.is_empty() {
            // Nobody is left who could be told.
            inner.table.clear();
            inner.changed.clear();
        }
        self.count.store(inner.trackers.len(), Ordering::SeqCst);
    }

    /// The connection `id` is about to read `keys`, or has read them, and may keep their values.
    pub(crate) fn remember<'k>(&self, id: u64, keys: impl Iterator<Item = &'k [u8]>) {
        let mut inner = self.inner.lock();
        // A read may be reported late: the connection may no longer track by then.
        if inner.trackers.contains_key(&id) {
            keys.for_each(|key| inner.table.remember(key, id));
        }
    }

    /// From now on at most `max` keys are remembered; 0 = as many as there is memory for.
    pub(crate) fn set_keys_max(&self, max: usize) {
        self.inner.lock().table.keys_max = max;
    }

    /// The limit that [`Tracking::set_keys_max`] sets.
    pub(crate) fn keys_max(&self) -> usize {
        self.inner.lock().table.keys_max
    }

    /// Evicts a key if there are too many. Returns the messages that this takes; `None` if the table is within its
    /// limits.
    pub(crate) fn evict(&self) -> Option<impl Iterator<Item = Message>> {
        let (key, clients) = self.inner.lock().table.evict()?;
        Some(self.messages(clients.into_iter(), News::changed(&key)))
    }

    /// The connection `by` has changed `key`. Returns the messages to send at once.
    pub(crate) fn changed(&self, key: &[u8], by: u64) -> impl Iterator<Item = Message> {
        let clients = {
            let mut inner = self.inner.lock();
            if !inner.prefixes.is_empty() {
                inner.changed.insert(key.into(), by);
            }
            let mut clients = inner.table.forget(key);
            if let Some(clients) = &mut clients
                && inner.trackers.get(&by).is_some_and(|tracker| tracker.mode.no_loop)
            {
                clients.remove(&by);
            }
            clients
        };
        let told = clients.map(|clients| self.messages(clients.into_iter(), News::changed(key)));
        told.into_iter().flatten()
    }

    /// The messages to clients in broadcast mode about the keys changed since the last call: for each prefix with
    /// changed keys, and for each connection that has changed some of these keys itself and is not told of its own
    /// changes. The messages are made one after the other, because each of them may contain all keys.
    pub(crate) fn broadcast(&self) -> impl Iterator<Item = Message> {
        let (changed, groups) = self.inner.lock().take_changed();
        groups.into_iter().flat_map(move |Group { prefix, besides, keepers }| {
            let keys = of_prefix(&changed, &prefix).filter(|(_, by)| Some(**by) != besides);
            let news = News::of_prefix(keys.map(|(key, _)| &key[..]));
            self.messages(keepers.into_iter(), news)
        })
    }

    /// All keys are gone. Returns the messages to send.
    pub(crate) fn flushed(&self) -> impl Iterator<Item = Message> {
        let keepers: Vec<u64> = {
            let mut inner = self.inner.lock();
            inner.table.clear();
            inner.changed.clear();
            inner.trackers.keys().copied().collect()
        };
        self.messages(keepers.into_iter(), News::flushed())
    }

    /// The messages that tell `news` to the connections `keepers`, made one after the other: each is for at most
    /// [`TURN_KEYS`] of them, so that others can be served in between. There is a message even if all of
    /// these are gone, because it takes time to find that out.
    fn messages(&self, mut keepers: impl Iterator<Item = u64>, news: Arc<News>) -> impl Iterator<Item = Message> {
        let some = std::iter::from_fn(move || {
            let some: Vec<u64> = keepers.by_ref().take(TURN_KEYS).collect();
            (!some.is_empty()).then_some(some)
        });
        some.flat_map(move |some| self.inner.lock().messages(&some, &news))
    }

    /// How the connection `id` tracks; `None` if it does not track.
    pub(crate) fn tracks(&self, id: u64) -> Option<Tracks> {
        if !self.is_in_use() {
            return None;
        }
        let inner = self.inner.lock();
        let Tracker { mode, is_broken, .. } = inner.trackers.get(&id)?;
        Some(Tracks { broadcast: mode.broadcast, redirect: mode.redirect, is_broken: *is_broken })
    }

    /// The prefixes of the connection `id`.
    pub(crate) fn prefixes(&self, id: u64) -> Vec<Arc<[u8]>> {
        let inner = self.inner.lock();
        inner.trackers.get(&id).map(|tracker| tracker.prefixes.iter().cloned().collect()).unwrap_or_default()
    }

    /// The sizes of the table.
    pub(crate) fn counts(&self) -> TrackingCounts {
        let inner = self.inner.lock();
        TrackingCounts {
            clients: inner.trackers.len(),
            keys: inner.table.len(),
            items: inner.table.items(),
            prefixes: inner.prefixes.len(),
        }
    }
}

/// The keys among `changed` that begin with `prefix`, each with the connection that has changed it.
fn of_prefix<'c>(
    changed: &'c BTreeMap<Box<[u8]>, u64>,
    prefix: &'c [u8],
) -> impl Iterator<Item = (&'c Box<[u8]>, &'c u64)> {
    let from = changed.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
    from.take_while(move |(key, _)| key.starts_with(prefix))
}

impl Inner {
    /// From now on the connection `id` is told of keys that begin with `prefix`. Returns the shared copy of the prefix.
    fn listen(&mut self, prefix: &[u8], id: u64) -> Arc<[u8]> {
        let kept = self.prefixes.get_key_value(prefix).map_or_else(|| prefix.into(), |(kept, _)| Arc::clone(kept));
        self.prefixes.entry(Arc::clone(&kept)).or_default().insert(id);
        kept
    }

    /// The connection `id` is no longer told of these keys.
    fn stop(&mut self, prefix: &[u8], id: u64) {
        if let Some(ids) = self.prefixes.get_mut(prefix) {
            ids.remove(&id);
            if ids.is_empty() {
                self.prefixes.remove(prefix);
            }
        }
    }

    /// Takes the keys changed since the last call, each with the connection that has changed it, and gives who is told.
    fn take_changed(&mut self) -> (BTreeMap<Box<[u8]>, u64>, Vec<Group>) {
        let changed = std::mem::take(&mut self.changed);
        let mut groups = Vec::new();
        if changed.is_empty() {
            return (changed, groups);
        }
        let changers: BTreeSet<u64> = changed.values().copied().collect();
        for (prefix, ids) in self.prefixes.iter().filter(|(prefix, _)| of_prefix(&changed, prefix).next().is_some()) {
            let is_spared =
                |id: &u64| changers.contains(id) && self.trackers.get(id).is_some_and(|tracker| tracker.mode.no_loop);
            let (spared, keepers): (Vec<u64>, Vec<u64>) = ids.iter().copied().partition(is_spared);
            for id in spared {
                if of_prefix(&changed, prefix).any(|(_, by)| *by != id) {
                    groups.push(Group { prefix: Arc::clone(prefix), besides: Some(id), keepers: vec![id] });
                }
            }
            if !keepers.is_empty() {
                groups.push(Group { prefix: Arc::clone(prefix), besides: None, keepers });
            }
        }
        (changed, groups)
    }

    /// The message that tells `news` to those of the connections `ids` that are still to be told, and for each
    /// connection whose receiver is gone, a message that says so.
    fn messages(&mut self, ids: &[u64], news: &Arc<News>) -> Vec<Message> {
        let (mut receivers, mut messages) = (Vec::new(), Vec::new());
        for id in ids {
            let Some(tracker) = self.trackers.get_mut(id) else { continue };
            // It has read the key before it changed its mode.
            if tracker.mode.broadcast && news.is_of_read_keys() {
                continue;
            }
            match tracker.receiver(*id) {
                Ok(receiver) => receivers.push(receiver),
                Err(message) => messages.push(message),
            }
        }
        messages.push(Message::new(receivers, ids.len(), news));
        messages
    }
}

impl Tracker {
    /// The receiver of messages for the connection `id`, to which this tracker belongs. If the receiver is gone, the
    /// message that says so.
    fn receiver(&mut self, id: u64) -> Result<Receiver, Message> {
        let Some((to, target)) = &self.target else { return Ok(Receiver { told: id, keeper: id }) };
        if target.upgrade().is_some_and(|target| !target.has_left()) {
            return Ok(Receiver { told: *to, keeper: id });
        }
        self.is_broken = true;
        Err(Message::broken(id, *to))
    }
}

#[cfg(test)]
mod tests;
