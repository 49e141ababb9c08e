//! What happens to keys, for those who want to be told: subscribers of keyspace notifications, and clients that keep
//! values of their own.
//!
//! Events travel with the changes of the command that they are about ([`Draft`](crate::Draft)): a change that is not
//! applied is not told either. Most events follow from what a command has written ([`derived`](crate::derived));
//! handlers tell the others. While nobody wants to be told anything, none of this code looks at anything.
//!
//! The owner of the rows hands the events to a [`Witness`] where it orders the changes, so the events of a row come in
//! the order of its changes.

mod classes;

pub use self::classes::Classes;

/// Something that has happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// The event's class.
    pub class: Classes,
    /// The event's name; empty where a key was changed ([`Classes::CHANGED`]) or is kept ([`Classes::KEPT`]).
    pub name: &'static str,
    /// The number under which the key's database is stored. Whoever passes the event on finds the database's name.
    pub database: u8,
    /// The key, as its users know it.
    pub key: Box<[u8]>,
    /// The number of the connection that has caused the event; 0 = none.
    pub by: u64,
}

impl KeyEvent {
    /// The events of a key that was found expired, and is gone, as far as `wants` asks for them. That the key was
    /// changed is one of them. `stored` is the row's key as engines know it.
    pub fn expired(stored: &[u8], wants: Classes) -> impl Iterator<Item = Self> + use<> {
        let row = stored.split_first().map(|(&database, key)| (database, Box::<[u8]>::from(key)));
        let classes = [(Classes::CHANGED, ""), (Classes::EXPIRED, "expired")];
        row.into_iter().flat_map(move |(database, key)| {
            classes.into_iter().filter(move |(class, _)| wants.has(*class)).map(move |(class, name)| Self {
                class,
                name,
                database,
                key: key.clone(),
                by: 0,
            })
        })
    }
}

/// Somebody who wants to be told what happens to keys.
pub trait Witness: Send + Sync {
    /// The classes that the witness wants to be told of now.
    fn wants(&self) -> Classes;

    /// Whether anybody listens to what the witness is told.
    fn is_heard(&self) -> bool {
        self.wants() != Classes::NONE
    }

    /// These events happened, in this order. The caller holds others up meanwhile, so an implementation should only
    /// remember them.
    fn tell(&self, events: Vec<KeyEvent>);
}
