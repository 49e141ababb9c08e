//! A journal: a durable list of edits, and `CURRENT`, which names its file. A tree's manifest is one, a node's
//! catalogue another, a backup's a third. Bytes in `docs/format/manifest.md`.
//!
//! 1. An edit is appended as one record and synced; only then does the new version become visible.
//! 2. When an append or its sync fails, nobody knows whether the record is durable. The file is never written again:
//!    the next edit first rolls to a new file that holds a snapshot of what is in memory. If no roll succeeds, the next
//!    opening may read the record from the page cache. Before it removes anything that the record gives up, it writes
//!    the record again in its place and syncs it.
//! 3. A roll writes the snapshot, syncs it and its name, then renames `CURRENT.tmp` over `CURRENT` and syncs the
//!    directory.
//! 4. On recovery a broken record with nothing valid behind it is a torn tail; with something valid behind it,
//!    corruption.
//!
//! Most journals name other files of their directory. [`Begun`], [`NamedFile`] and [`Garbage`] are the three stages of
//! such a file: no edit names it yet, one does, none does any more. If an append that names new files fails, these
//! files stay until the next roll has made sure that they are not named.

mod codec;
mod files;
mod garbage;
mod journal;
mod repair;

pub use codec::{
    Appended, Broken, Contents, Entry, NUMBER_MAX, contents, decode, decode_current, file_name, file_number,
};
pub use files::read_file;
pub use garbage::{Begun, Garbage, NamedFile, left_over};
pub use journal::{Journal, Recovered, point_at};
pub use repair::{Anchor, examine};
