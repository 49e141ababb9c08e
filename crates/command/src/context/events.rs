//! What a command tells of events, and what the code that derives events from its writes asks
//! ([`derived`](crate::derived)).

use weir_model::BatchRef;

use super::{Asked, Context, own_write};
use crate::error::Outcome;
use crate::events::{Classes, KeyEvent};

impl Context<'_> {
    /// Tells that `name`, an event of `class`, has happened to `key`. Handlers call it for events that do not follow
    /// from what they have written.
    pub fn tell(&mut self, class: Classes, name: &'static str, key: &[u8]) {
        self.tell_of(self.number(), key, (class, name));
    }

    /// As [`Context::tell`], for a key in the database with the number `database`.
    #[inline]
    pub(crate) fn tell_of(&mut self, database: u8, key: &[u8], (class, name): (Classes, &'static str)) {
        if self.call.wants.has(class) {
            let event = KeyEvent { class, name, database, key: key.into(), by: self.call.by };
            self.draft.events.push(event);
        }
    }

    /// Tells that `key` was made. The event goes in front of all others of that key, or with `first` in front of all
    /// others.
    pub(crate) fn tell_new(&mut self, database: u8, key: &[u8], first: bool) {
        if !self.call.wants.has(Classes::NEW) {
            return;
        }
        let own = &self.draft.events[self.begin_events..];
        let is_of_key = |event: &KeyEvent| {
            let is_about_it = !event.class.has(Classes::CHANGED.and(Classes::KEY_MISS));
            is_about_it && (first || (event.database == database && *event.key == *key))
        };
        let place = own.iter().position(is_of_key).unwrap_or(own.len());
        let event = KeyEvent { class: Classes::NEW, name: "new", database, key: key.into(), by: self.call.by };
        self.draft.events.insert(self.begin_events + place, event);
    }

    #[cold]
    pub(super) fn tell_miss(&mut self, asked: Asked<'_>) {
        if let Asked::Row(database, key) = asked {
            self.tell_of(database, key, (Classes::KEY_MISS, "keymiss"));
        }
    }

    /// Which events somebody wants to be told of.
    #[inline]
    pub(crate) fn wants(&self) -> Classes {
        self.call.wants
    }

    /// Tells nobody of missing keys: the command only looks at facts about keys.
    pub(crate) fn miss_nothing(&mut self) {
        self.call.wants = self.call.wants.without(Classes::KEY_MISS);
    }

    /// Tells of missing keys that the command looks for, even if they are not among its own rows.
    pub(crate) fn tell_misses(&mut self) {
        self.tells_misses = self.call.wants.has(Classes::KEY_MISS);
    }

    /// Whether nobody else may write to the command's rows while it runs.
    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// What the command has written so far.
    pub(crate) fn written(&self) -> BatchRef<'_> {
        self.draft.since(self.begin)
    }

    /// Whether there is a row of `key` in the database with the number `database`. The look is not on the bill.
    ///
    /// # Errors
    /// The row cannot be read.
    pub(crate) async fn exists(&mut self, database: u8, key: &[u8]) -> Outcome<bool> {
        let asked = Asked::Row(database, key);
        if let Some(own) = own_write(&mut self.draft, asked, self.call.now_ms) {
            return Ok(own.is_some());
        }
        let read = self.ask(asked);
        Ok(self.finish(read).await?.is_some())
    }
}
