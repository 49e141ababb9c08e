//! What happens to keys, for those who want to be told: subscribers of keyspace notifications, and clients who keep
//! values of their own.
//!
//! Events ride with the changes of the command that they are about ([`Draft`](crate::Draft)): what is not applied is
//! not told. Most follow from what a command has written ([`derived`](crate::derived)); handlers say the others. While
//! nobody wants to be told anything nothing is looked at.
//!
//! Whoever has the rows hands the events to a [`Witness`] where he orders the changes: so the events of a row come in
//! the order of its changes.

mod classes;

pub use self::classes::Classes;

/// Something that has happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// Its class.
    pub class: Classes,
    /// What it is called; nothing where a key was changed ([`Classes::CHANGED`]) or is kept ([`Classes::KEPT`]).
    pub name: &'static str,
    /// The number under which the database is stored that the key is in; whoever tells it on says what it is called.
    pub database: u8,
    /// The key, as its users know it.
    pub key: Box<[u8]>,
    /// Who has caused it: the number of a connection; 0 = nobody.
    pub by: u64,
}

impl KeyEvent {
    /// A key was found expired, and is gone: what of that `wants` asks for, which is that it was changed, too. `stored`
    /// is the row's key as engines know it.
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

/// Who wants to be told what happens to keys.
pub trait Witness: Send + Sync {
    /// What it wants to be told now.
    fn wants(&self) -> Classes;

    /// Whether anybody listens to what it is told.
    fn is_heard(&self) -> bool {
        self.wants() != Classes::NONE
    }

    /// These happened, one after the other. Whoever tells it holds others up meanwhile: it only remembers.
    fn tell(&self, events: Vec<KeyEvent>);
}
