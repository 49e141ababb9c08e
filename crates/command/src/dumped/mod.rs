//! Rows of many parts in the form of Redis' dump files, written page by page: for `DUMP`, and for the dump file of a
//! tenant ([`crate::snapshot`]). Beside what was written, no more than a page of a row is in memory.

mod streams;

use weir_model::parts::RowType;

use crate::collection::{Collection, Member, Stream, Stretch, Walk};
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::rdb::file::Writer;
use crate::rdb::{VERSION, VERSION_OF_DEADLINES, kind, push_field, push_long_len, push_string};

const ANOTHER_NUMBER: Error = Error::new("ERR it has another number of elements than it says");
const BEFORE_THE_FIRST: Error = Error::new("ERR internal error: a field expires before the first one that expires");

/// How many members are read at once.
const PAGE_MEMBERS: usize = 500;

/// Waiting bytes of a file are sent once there are this many.
pub const SENT_BYTES: usize = 64 << 10;

/// Sends the waiting bytes of `file`, if they are many.
///
/// # Errors
/// The client is gone.
pub async fn send(cx: &mut Context<'_>, file: &mut Writer) -> Outcome {
    if file.waiting.len() < SENT_BYTES {
        return Ok(());
    }
    let waiting = file.take();
    cx.replies().raw(&waiting);
    cx.drain().await
}

/// Where a row is written.
pub enum Target<'t> {
    /// Memory that has all of the row in the end.
    Memory(&'t mut Vec<u8>),
    /// A file that is sent while it is made.
    File(&'t mut Writer),
}

impl Target<'_> {
    /// Where to append what is written.
    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Target::Memory(out) => out,
            Target::File(file) => &mut file.waiting,
        }
    }

    /// Lets others run between two pages. A page of a file is sent, and paid for.
    async fn end_page(&mut self, cx: &mut Context<'_>) -> Outcome {
        match self {
            Target::Memory(_) => cx.yields().now().await,
            Target::File(file) => {
                send(cx, file).await?;
                cx.end_page().await?;
            }
        }
        Ok(())
    }
}

/// A row that is to be written, as it is at one moment.
pub struct Dumped<'k> {
    row: Collection<'k>,
    /// The first deadline of its fields; `None` where no field has one.
    first_ms: Option<u64>,
}

impl<'k> Dumped<'k> {
    /// `row`, all of which the context sees at one moment.
    ///
    /// # Errors
    /// The row cannot be read.
    pub async fn of(cx: &mut Context<'_>, mut row: Collection<'k>) -> Outcome<Self> {
        // Fields that have expired and were not swept yet are not written.
        row.count_expired(cx).await?;
        let first_ms = row.first_deadline();
        Ok(Self { row, first_ms })
    }

    /// The type that the row is written as.
    pub fn kind(&self) -> u8 {
        match self.row.kind() {
            RowType::List => kind::LIST,
            RowType::Set => kind::SET,
            RowType::SortedSet => kind::SORTED_SET_2,
            RowType::Hash if self.first_ms.is_some() => kind::HASH_METADATA,
            RowType::Hash => kind::HASH,
            RowType::Stream => kind::STREAM_LISTPACKS_2,
        }
    }

    /// The version of dump files that has this type.
    pub fn version(&self) -> u16 {
        if self.first_ms.is_some() { VERSION_OF_DEADLINES } else { VERSION }
    }

    /// Writes what follows the type.
    ///
    /// # Errors
    /// The row cannot be read, or is damaged; or the client to whom the file is sent is gone.
    pub async fn push(self, cx: &mut Context<'_>, target: &mut Target<'_>) -> Outcome {
        let Self { row, first_ms } = self;
        if row.kind() == RowType::Stream {
            return streams::push(cx, &Stream::of(row)?, target).await;
        }
        target.out().extend(first_ms.map(u64::to_le_bytes).into_iter().flatten());
        push_long_len(target.out(), row.len());
        let written = match row.kind() {
            RowType::List => push_values(cx, &row, target).await?,
            RowType::SortedSet => push_scores(cx, &row, target).await?,
            _ => push_members(cx, &row, first_ms, target).await?,
        };
        if written == row.len() { Ok(()) } else { Err(ANOTHER_NUMBER) }
    }
}

/// Writes the values of a list; gives how many there are.
async fn push_values(cx: &mut Context<'_>, row: &Collection<'_>, target: &mut Target<'_>) -> Outcome<u64> {
    let (mut written, mut walk) = (0, Walk::new(0..row.len(), false));
    while !walk.is_done() {
        let some = row.some_values(cx, &mut walk).await?;
        some.iter().for_each(|value| push_string(target.out(), value));
        cx.copied_parts(some.len());
        written += some.len() as u64;
        if !walk.is_done() {
            target.end_page(cx).await?;
        }
    }
    Ok(written)
}

/// Writes the members of a sorted set with their scores; gives how many there are.
async fn push_scores(cx: &mut Context<'_>, row: &Collection<'_>, target: &mut Target<'_>) -> Outcome<u64> {
    let (mut written, mut left) = (0, Some(Stretch::ALL));
    while let Some(stretch) = left {
        let (members, rest) = row.scored_page(cx, stretch, false, PAGE_MEMBERS).await?;
        for member in &members {
            push_string(target.out(), &member.name);
            target.out().extend_from_slice(&member.score.to_le_bytes());
        }
        cx.copied_parts(2 * members.len());
        written += members.len() as u64;
        left = rest;
        if left.is_some() {
            target.end_page(cx).await?;
        }
    }
    Ok(written)
}

/// Writes the members of a set, or the fields of a hash with their values, and with their deadlines if `first_ms` is
/// the first of these; gives how many there are.
async fn push_members(
    cx: &mut Context<'_>,
    row: &Collection<'_>,
    first_ms: Option<u64>,
    target: &mut Target<'_>,
) -> Outcome<u64> {
    let (mut written, mut next) = (0, Some(0));
    let texts = if row.kind() == RowType::Hash { 2 } else { 1 };
    while let Some(from) = next {
        let page = row.members_from(cx, from, PAGE_MEMBERS).await?;
        for Member { name, value, expire_at_ms } in &page.members {
            match texts {
                1 => push_string(target.out(), name),
                _ => push_field(target.out(), first_ms, (name, value), *expire_at_ms).ok_or(BEFORE_THE_FIRST)?,
            }
        }
        cx.copied_parts(texts * page.members.len());
        written += page.members.len() as u64;
        next = page.next;
        if next.is_some() {
            target.end_page(cx).await?;
        }
    }
    Ok(written)
}
