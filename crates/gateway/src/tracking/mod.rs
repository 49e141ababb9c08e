//! Clients that keep values of their own (`CLIENT TRACKING`), and are told when those are no longer true.
//!
//! A key that such a client reads is remembered *before* it is read, so that whoever changes it afterwards finds the
//! client here. The first change tells it, and forgets that it has the key. Clients in broadcast mode are told of all
//! keys that begin with one of their prefixes, and nothing is remembered of what they read.
//!
//! As in Redis keys are known by their names, whatever database they are in. The table is bounded: beyond its limit a
//! key is forgotten, and those who have it are told as if it had changed.
//!
//! Lock order: the table, then a mailbox.

mod messages;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

pub(crate) use self::messages::Message;
use self::table::Table;
use crate::mailbox::Recipient;

/// How a client is told, as it has asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mode {
    pub(crate) broadcast: bool,
    /// Only what is read behind `CLIENT CACHING YES`.
    pub(crate) opt_in: bool,
    /// All but what is read behind `CLIENT CACHING NO`.
    pub(crate) opt_out: bool,
    /// Not of what it changes itself.
    pub(crate) no_loop: bool,
    /// The connection that is told in its place.
    pub(crate) redirect: Option<u64>,
}

/// A client that tracks.
struct Tracker {
    mode: Mode,
    /// Whose connection is told; `None` = its own.
    target: Option<(u64, Weak<dyn Recipient>)>,
    prefixes: BTreeSet<Box<[u8]>>,
    /// It knows that whoever is told in its place has gone.
    is_broken: bool,
}

/// See the module. Belongs to one tenant.
#[derive(Default)]
pub(crate) struct Tracking {
    /// Clients that track.
    count: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    trackers: BTreeMap<u64, Tracker>,
    table: Table,
    /// Keys changed since the last messages to those in broadcast mode, and who was the first to change each.
    changed: BTreeMap<Box<[u8]>, u64>,
}

/// What a tenant's table has.
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

    /// The connection `id` tracks in `mode` from now on, with further prefixes.
    pub(crate) fn enable(&self, id: u64, mode: Mode, target: Option<Weak<dyn Recipient>>, prefixes: &[&[u8]]) {
        let mut inner = self.inner.lock();
        let mut kept = inner.trackers.remove(&id).map(|tracker| tracker.prefixes).unwrap_or_default();
        if mode.broadcast {
            kept.extend(prefixes.iter().map(|&prefix| Box::from(prefix)));
            if kept.is_empty() {
                kept.insert(Box::default());
            }
        }
        let target = mode.redirect.zip(target);
        inner.trackers.insert(id, Tracker { mode, target, prefixes: kept, is_broken: false });
        self.count.store(inner.trackers.len(), Ordering::SeqCst);
    }

    /// The connection `id` tracks no more.
    pub(crate) fn disable(&self, id: u64) {
        let mut inner = self.inner.lock();
        inner.trackers.remove(&id);
        if inner.trackers.is_empty() {
            // Nobody is left who could be told.
            inner.table.clear();
            inner.changed.clear();
        }
        self.count.store(inner.trackers.len(), Ordering::SeqCst);
    }

    /// The connection `id` is about to read `keys`, and may keep their values.
    pub(crate) fn remember<'k>(&self, id: u64, keys: impl Iterator<Item = &'k [u8]>) {
        let mut inner = self.inner.lock();
        keys.for_each(|key| inner.table.remember(key, id));
    }

    /// At most so many keys are remembered from now on; 0 = as many as there is memory for.
    pub(crate) fn set_keys_max(&self, max: usize) {
        self.inner.lock().table.keys_max = max;
    }

    /// See [`Tracking::set_keys_max`].
    pub(crate) fn keys_max(&self) -> usize {
        self.inner.lock().table.keys_max
    }

    /// Keys go until the table is within its limits. Gives what is to be told of them.
    pub(crate) fn shrink(&self) -> Vec<Message> {
        let mut inner = self.inner.lock();
        let mut messages = Vec::new();
        while let Some((key, clients)) = inner.table.evict() {
            inner.tell_each(&key, clients, 0, &mut messages);
        }
        messages
    }

    /// The connection `by` has changed `key`: gives what is to be told at once.
    pub(crate) fn changed(&self, key: &[u8], by: u64) -> Vec<Message> {
        let mut inner = self.inner.lock();
        if inner.trackers.values().any(|tracker| tracker.mode.broadcast) {
            inner.changed.entry(key.into()).or_insert(by);
        }
        let mut messages = Vec::new();
        if let Some(clients) = inner.table.forget(key) {
            inner.tell_each(key, clients, by, &mut messages);
        }
        messages
    }

    /// What is to be told to those in broadcast mode of the keys changed since the last time: one message for each of
    /// their prefixes.
    pub(crate) fn broadcast(&self) -> Vec<Message> {
        let mut inner = self.inner.lock();
        let changed = std::mem::take(&mut inner.changed);
        let mut messages = Vec::new();
        if changed.is_empty() {
            return messages;
        }
        let ids: Vec<u64> = inner.trackers.keys().copied().collect();
        for id in ids {
            let Some(tracker) = inner.trackers.get_mut(&id) else { continue };
            for prefix in tracker.prefixes.clone() {
                let is_told = |by: u64| !(tracker.mode.no_loop && by == id);
                let from =
                    changed.range::<[u8], _>((std::ops::Bound::Included(&prefix[..]), std::ops::Bound::Unbounded));
                let keys = from.take_while(|(key, _)| key.starts_with(&prefix)).filter(|(_, by)| is_told(**by));
                let keys: Vec<&[u8]> = keys.map(|(key, _)| &key[..]).collect();
                if !keys.is_empty() {
                    messages.extend(tracker.message(id, Some(&keys)));
                }
            }
        }
        messages
    }

    /// All keys are gone: gives what is to be told.
    pub(crate) fn flushed(&self) -> Vec<Message> {
        let mut inner = self.inner.lock();
        inner.table.clear();
        inner.changed.clear();
        inner.trackers.iter_mut().filter_map(|(&id, tracker)| tracker.message(id, None)).collect()
    }

    /// Whether the connection that the connection `id` has told in its place is gone, as far as it knows.
    pub(crate) fn is_broken(&self, id: u64) -> bool {
        self.inner.lock().trackers.get(&id).is_some_and(|tracker| tracker.is_broken)
    }

    /// The prefixes of the connection `id`.
    pub(crate) fn prefixes(&self, id: u64) -> Vec<Box<[u8]>> {
        let inner = self.inner.lock();
        inner.trackers.get(&id).map(|tracker| tracker.prefixes.iter().cloned().collect()).unwrap_or_default()
    }

    /// How much there is.
    pub(crate) fn counts(&self) -> TrackingCounts {
        let inner = self.inner.lock();
        let prefixes: BTreeSet<_> = inner.trackers.values().flat_map(|tracker| &tracker.prefixes).collect();
        TrackingCounts {
            clients: inner.trackers.len(),
            keys: inner.table.len(),
            items: inner.table.items(),
            prefixes: prefixes.len(),
        }
    }
}

impl Inner {
    /// Tells each of `clients` that `key` was changed by the connection `by`.
    fn tell_each(&mut self, key: &[u8], clients: BTreeSet<u64>, by: u64, messages: &mut Vec<Message>) {
        for id in clients {
            if let Some(tracker) = self.trackers.get_mut(&id)
                && !tracker.mode.broadcast
                && !(tracker.mode.no_loop && by == id)
            {
                messages.extend(tracker.message(id, Some(&[key])));
            }
        }
    }
}

impl Tracker {
    /// The message that `keys` have changed, or that all are gone, for the connection `id`, whose tracker this is.
    fn message(&mut self, id: u64, keys: Option<&[&[u8]]>) -> Option<Message> {
        let Some((to, target)) = &self.target else { return Some(Message::changed(id, id, keys)) };
        if target.upgrade().is_some() {
            return Some(Message::changed(*to, id, keys));
        }
        self.is_broken = true;
        Some(Message::broken(id, *to))
    }
}

#[cfg(test)]
mod tests;
