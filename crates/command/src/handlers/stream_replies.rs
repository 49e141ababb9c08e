//! How entries of a stream are written to the answer.

use crate::collection::{EntriesPage, Entry, EntryRef, PAGE_ENTRIES, Stream};
use crate::context::{Context, Subkeys};
use crate::error::Outcome;
use crate::handlers::stream_ids;
use crate::reply::{FLUSH_BYTES, Replies};

/// What an entry takes in an answer beside its words: its id, and the headers of its arrays.
pub const ENTRY_BYTES: usize = 60;
/// What a word takes in an answer beside what is stored of it: its length in digits, and two line ends.
const WORD_BYTES: usize = 7;

/// How much of a range was read.
pub enum Told {
    /// Nothing was read, and all of the range is left; `None` = the range is empty.
    Nothing(Option<Subkeys>),
    /// The first page, and what is left.
    Page(EntriesPage, Option<Subkeys>),
}

impl Told {
    /// The first page of `range` of `stream`, for an answer of `count` entries.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub async fn first(cx: &mut Context<'_>, stream: &Stream<'_>, range: Option<Subkeys>, count: u64) -> Outcome<Self> {
        let Some(range) = range else { return Ok(Self::Nothing(None)) };
        let (entries, left) = stream.entries_page(cx, range, page_of(count)).await?;
        Ok(Self::Page(entries, left))
    }

    /// Whether something is left to be read for an answer of `count` entries.
    pub fn goes_on(&self, count: u64) -> bool {
        match self {
            Self::Nothing(range) => range.is_some(),
            Self::Page(entries, left) => left.is_some() && (entries.len() as u64) < count,
        }
    }
}

/// How many entries are read at a time for an answer of `count`.
pub fn page_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX).min(PAGE_ENTRIES)
}

/// About how many bytes `entry` takes in an answer. Short words take several times as much there as they do in the
/// store.
///
/// # Errors
/// The entry is damaged.
pub fn told_bytes(entry: &Entry) -> Outcome<usize> {
    let (words, _) = entry.as_ref().words()?;
    Ok(ENTRY_BYTES + WORD_BYTES * words + entry.bytes())
}

/// Answers with `entry`: its id, and its fields and values.
///
/// # Errors
/// The entry is damaged.
pub fn tell_entry(replies: &mut Replies, entry: EntryRef<'_>) -> Outcome {
    let (count, words) = entry.words()?;
    replies.array(2);
    stream_ids::tell(replies, entry.id);
    replies.array(count);
    words.for_each(|word| replies.bulk(word));
    Ok(())
}

/// As [`tell_entry`], for a command that holds rows. Such a command may answer with 32 MB beside one value, so a long
/// value is not copied into the rest of the answer.
///
/// # Errors
/// As [`tell_entry`].
pub fn tell_held(replies: &mut Replies, entry: &Entry) -> Outcome {
    if entry.bytes() < FLUSH_BYTES {
        return tell_entry(replies, entry.as_ref());
    }
    let (count, _) = entry.as_ref().words()?;
    replies.array(2);
    stream_ids::tell(replies, entry.id);
    replies.array(count);
    entry.shared_words().for_each(|(value, word)| replies.bulk_part(value, word));
    Ok(())
}

/// Answers with the first `count` entries of a range, as an array.
///
/// A short range is read once. The length of a longer range has to be known before its first entry is answered. So it
/// is read twice, and any number of entries takes no more memory than a page of them.
///
/// # Errors
/// The entries cannot be read; the client is gone.
pub async fn tell_range(cx: &mut Context<'_>, stream: &Stream<'_>, told: Told, count: u64) -> Outcome {
    let (mut entries, mut left) = match told {
        Told::Page(entries, left) => (entries, left),
        Told::Nothing(None) => {
            cx.replies().array(0);
            return Ok(());
        }
        Told::Nothing(Some(range)) => stream.entries_page(cx, range, page_of(count)).await?,
    };
    let mut total = (entries.len() as u64).min(count);
    if total < count && left.is_some() {
        total += rest_of(cx, stream, left.clone(), count - total).await?;
    }
    cx.replies().array(total as usize);
    let mut untold = total;
    loop {
        for entry in entries.iter().take(usize::try_from(untold).unwrap_or(usize::MAX)) {
            tell_entry(cx.replies(), entry?)?;
            untold -= 1;
        }
        cx.drain().await?;
        let Some(range) = left.filter(|_| untold > 0) else { return Ok(()) };
        cx.yields().now().await;
        (entries, left) = stream.entries_page(cx, range, page_of(count)).await?;
    }
}

/// How many entries a range has, up to `count`.
async fn rest_of(cx: &mut Context<'_>, stream: &Stream<'_>, mut left: Option<Subkeys>, count: u64) -> Outcome<u64> {
    let mut len = 0;
    while let Some(range) = left.filter(|_| len < count) {
        let (entries, rest) = stream.entries_page(cx, range, PAGE_ENTRIES).await?;
        len += entries.len() as u64;
        left = rest;
        cx.end_step(left.is_some() && len < count).await;
    }
    Ok(len.min(count))
}
