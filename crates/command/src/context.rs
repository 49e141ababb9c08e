//! What a command's handler sees: rows to read, a batch to write into, an answer to fill.
//!
//! A handler is a function from its words to an answer and a batch. It does not know who asked, where the rows are, or
//! whether it is one of several in a transaction. Its reads see its own writes. Its writes leave as one batch with
//! absolute times when it has ended, and not at all if it has failed.
//!
//! A handler reads first and writes afterwards, because a read that follows a write has to look through the batch.

use weir_admission::request_units::Module;
use weir_io::Yield;
use weir_model::parts::Head;
use weir_model::{BatchMark, Change, Content, Databases, KEY_BYTES_MAX, Row, StringRow, VALUE_BYTES_MAX};

use crate::args::Args;
use crate::draft::Draft;
use crate::error::{Error, KEY_TOO_LONG, Outcome, REPLY_TOO_LONG, TOO_LONG, WRONG_TYPE};
use crate::events::Classes;
use crate::host::Host;
use crate::in_hand::letting_go;
use crate::reply::{FLUSH_BYTES, Replies};
use crate::room::Room;
use crate::rows::{Moment, Read, Rows, Waiting};
use crate::table::Command;

mod asked;
mod call;
mod chunks;
mod counting;
mod events;
mod keys;
mod moment;
mod parts;
mod work;

use asked::{Asked, own_write};
pub use call::{Call, Wait};
pub(crate) use parts::StoredPartsPage;
pub use parts::{Part, PartsPage, Subkeys};

/// Values of at least this length are booked on their tenant for as long as a command holds them (S11).
pub const LONG_VALUE_BYTES: usize = 1 << 20;

/// All that the handler of one command may use.
pub struct Context<'a> {
    rows: &'a dyn Rows,
    host: &'a mut dyn Host,
    call: &'a mut Call,
    draft: Draft,
    /// Where this command's changes and its events begin in the draft.
    begin: BatchMark,
    begin_events: usize,
    /// Nobody else may write to the command's rows while it runs.
    is_locked: bool,
    /// The command does not write, though its rows may be locked.
    only_reads: bool,
    /// The command is [quiet](Command::is_quiet).
    is_quiet: bool,
    /// Tells witnesses of keys that are missing, although the rows are locked.
    tells_misses: bool,
    /// The snapshot that the command reads from now on, if all its reads have to see the same moment.
    moment: Option<Box<dyn Moment>>,
    /// How many reads the command has made, if only a check at the end tells whether all of them saw the same moment.
    judged_reads: Option<u32>,
    /// The last read was answered from the draft.
    is_in_hand: bool,
    /// A row of a wrong type was [passed over](Context::or_pass_over).
    has_passed_over: bool,
}

impl<'a> Context<'a> {
    /// For a command that only reads.
    pub fn reading(rows: &'a dyn Rows, host: &'a mut dyn Host, call: &'a mut Call) -> Self {
        Self::new(rows, host, call, Draft::default(), false)
    }

    /// For a command whose rows nobody else writes to meanwhile. Its changes are added after those of `draft`, and its
    /// reads see those earlier changes.
    pub fn locked(rows: &'a dyn Rows, host: &'a mut dyn Host, call: &'a mut Call, draft: Draft) -> Self {
        Self::new(rows, host, call, draft, true)
    }

    fn new(rows: &'a dyn Rows, host: &'a mut dyn Host, call: &'a mut Call, draft: Draft, is_locked: bool) -> Self {
        let (begin, begin_events) = (draft.mark(), draft.events_len());
        Self {
            rows,
            host,
            call,
            draft,
            begin,
            begin_events,
            is_locked,
            only_reads: !is_locked,
            is_quiet: false,
            tells_misses: false,
            moment: None,
            judged_reads: None,
            is_in_hand: false,
            has_passed_over: false,
        }
    }

    /// `command` is about to run.
    #[inline]
    pub(crate) fn begin_command(&mut self, command: &Command, args: Args<'_>) {
        self.only_reads |= !command.writes_with(args);
        self.is_quiet = command.is_quiet();
    }

    /// The name of the chosen database.
    pub fn database(&self) -> u8 {
        self.call.database
    }

    /// The number that stands in front of the keys of the chosen database.
    #[inline]
    pub(crate) fn number(&self) -> u8 {
        self.call.databases.number(self.call.database)
    }

    /// The number under which each database is stored.
    pub(crate) fn databases(&self) -> Databases {
        self.call.databases
    }

    /// The moment that the command is judged by, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.call.now_ms
    }

    /// What the wall clock shows, in milliseconds since 1970. What has expired depends on [`Context::now_ms`] alone.
    pub fn clock_ms(&self) -> u64 {
        self.call.clock_ms
    }

    /// The longest value that may be built up, in bytes.
    pub fn value_bytes_max(&self) -> usize {
        self.call.value_bytes_max
    }

    /// How many entries of a stream are removed together where it is trimmed approximately.
    pub fn stream_node_entries(&self) -> u64 {
        self.call.stream_node_entries
    }

    /// Nothing was found, and the answer says so. The caller of the command may wait, and run it again.
    pub fn wait_for_rows(&mut self, wait: Wait) {
        // Connections behind it may want a row that was passed over.
        let takes = wait.takes && !self.has_passed_over;
        self.call.wait = Some(Wait { takes, ..wait });
    }

    /// Whether the command has waited, and runs again because a row was written to.
    pub fn is_again(&self) -> bool {
        self.call.is_again
    }

    /// `found`, the row of one of the keys that a command waits for. Once the command has waited, it no longer fails at
    /// a row of a wrong type: it passes over that row, because another of its rows may have been filled.
    pub(crate) fn or_pass_over<T>(&mut self, found: Outcome<Option<T>>) -> Outcome<Option<T>> {
        match found {
            Err(error) if error == WRONG_TYPE && self.is_again() => {
                self.has_passed_over = true;
                Ok(None)
            }
            found => found,
        }
    }

    /// Whether a script asks for the command.
    pub fn is_scripted(&self) -> bool {
        self.call.is_scripted
    }

    /// The answer.
    #[inline]
    pub fn replies(&mut self) -> &mut Replies {
        self.host.replies()
    }

    /// How a long computation lets others run.
    pub fn yields(&self) -> Yield {
        self.host.yields()
    }

    /// Lets others run between two steps of a long command, if there `is_more` to be done.
    pub(crate) async fn end_step(&mut self, is_more: bool) {
        if is_more {
            self.yields().now().await;
        }
    }

    /// A random number.
    pub fn random(&mut self) -> u64 {
        self.host.random()
    }

    /// As [`Host::drain`], but does not wait while rows are locked: a command that holds rows does not wait for a
    /// client, and its answer is bounded.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn drain(&mut self) -> Outcome {
        if self.host.replies().len() < FLUSH_BYTES {
            return Ok(());
        }
        if self.is_locked {
            // The command's writes are not committed yet, and others wait for its rows.
            return self.check_kept();
        }
        self.host.drain().await
    }

    /// Checks that the answer so far is short enough to be kept until the command's writes are committed.
    ///
    /// # Errors
    /// It is too long.
    fn check_kept(&mut self) -> Outcome {
        if self.host.replies().is_too_long() { Err(REPLY_TOO_LONG) } else { Ok(()) }
    }

    /// Room for a result of `bytes_max`, which the command puts together in memory; beyond that, `too_large`.
    pub(crate) fn room(&self, bytes_max: usize, too_large: Error) -> Room {
        Room::new(bytes_max, too_large, self.host.results())
    }

    /// See [`Host::let_go`].
    pub fn let_go(&mut self) {
        self.host.let_go();
    }

    /// The row of `key`.
    ///
    /// # Errors
    /// The rows cannot be read; `key` is longer than any that exists.
    #[inline]
    pub async fn get(&mut self, key: &[u8]) -> Outcome<Option<Row>> {
        self.get_in(self.call.database, key).await
    }

    /// The row of `key`, which has to be a string.
    ///
    /// # Errors
    /// As [`Context::get`], and if the row is not a string.
    #[inline]
    pub async fn string(&mut self, key: &[u8]) -> Outcome<Option<StringRow>> {
        string_of(self.get(key).await?)
    }

    /// The row of `key` in another database of the same tenant.
    ///
    /// # Errors
    /// As [`Context::get`].
    #[inline]
    pub async fn get_in(&mut self, database: u8, key: &[u8]) -> Outcome<Option<Row>> {
        // A command that holds rows does not wait for clients that do not read their replies.
        let books = !self.is_locked;
        self.read(Asked::Row(self.call.databases.number(database), key), books).await
    }

    /// The row of `key`, a string, whose value the command keeps while it reads other rows. A long value is booked on
    /// its tenant, even while rows are locked (S11).
    ///
    /// # Errors
    /// As [`Context::string`], and if too many long values are in hand.
    pub async fn string_to_keep(&mut self, key: &[u8]) -> Outcome<Option<StringRow>> {
        string_of(self.read(Asked::Row(self.number(), key), true).await?)
    }

    #[inline]
    async fn read(&mut self, asked: Asked<'_>, books: bool) -> Outcome<Option<Row>> {
        let row = self.fetch(asked, books).await?;
        Ok(self.met(asked, row))
    }

    /// Reads without counting the read on the bill.
    #[inline]
    async fn fetch(&mut self, asked: Asked<'_>, books: bool) -> Outcome<Option<Row>> {
        match self.look(asked, books) {
            Look::Done(row) => row,
            Look::Waits(read) => self.wait_for(asked, books, read).await,
        }
    }

    /// Goes as far with a read as is possible without waiting; most reads are done then.
    #[inline]
    fn look<'k>(&mut self, asked: Asked<'k>, books: bool) -> Look<'k>
    where
        'a: 'k,
    {
        // For a command that only reads, such a key does not exist, also among commands that write.
        if !self.only_reads && asked.key().len() > KEY_BYTES_MAX {
            return Look::Done(Err(KEY_TOO_LONG));
        }
        self.judged_read();
        self.is_in_hand = false;
        if !self.draft.is_empty()
            && let Some(own) = own_write(&mut self.draft, asked, self.call.now_ms)
        {
            self.is_in_hand = true;
            return Look::Done(Ok(own));
        }
        match self.ask(asked) {
            Read::Ready(Ok(row)) => {
                let is_long = row.as_ref().is_some_and(|row| row.bytes() >= LONG_VALUE_BYTES);
                if books && is_long { Look::Waits(Read::Ready(Ok(row))) } else { Look::Done(Ok(row)) }
            }
            Read::Ready(Err(error)) => Look::Done(Err(error.into())),
            pending @ Read::Pending(_) => Look::Waits(pending),
        }
    }

    #[inline]
    fn ask<'k>(&self, asked: Asked<'k>) -> Read<'k>
    where
        'a: 'k,
    {
        match &self.moment {
            None => asked.of(self.rows, self.call.now_ms),
            Some(moment) => moment.read(asked.stored(), self.call.now_ms),
        }
    }

    /// Counts a row that was read, and puts it on the bill.
    #[inline]
    fn met(&mut self, asked: Asked<'_>, row: Option<Row>) -> Option<Row> {
        if let Some(Row { content: Content::Parts(_), .. }) = &row {
            self.call.bill.work.count(Module::HeadRead, 1);
        }
        self.met_bytes(asked, row.as_ref().map(Row::bytes));
        row
    }

    /// The same for a row of `found` bytes; `None` if there is no such row.
    #[inline]
    fn met_bytes(&mut self, asked: Asked<'_>, found: Option<usize>) {
        self.call.longest = self.call.longest.max(found.unwrap_or(0));
        let writes = self.is_locked && !self.call.counts_as_read;
        match asked {
            Asked::Row(..) => self.call.bill.read(found, writes, self.is_in_hand),
            Asked::Part(..) => self.call.bill.read_part(found, writes, self.is_in_hand),
        }
        if self.tells_misses && found.is_none() {
            self.tell_miss(asked);
        }
        if !writes && matches!(asked, Asked::Row(..)) {
            match found {
                Some(_) => self.call.hits += 1,
                None => {
                    self.call.misses += 1;
                    if !self.is_locked && self.call.wants.has(Classes::KEY_MISS) {
                        self.tell_miss(asked);
                    }
                }
            }
        }
    }

    /// The rest of a read that has to wait, for the device or for room to hold its value. Its future is boxed, so that
    /// the futures of handlers, which seldom wait, stay small.
    #[cold]
    fn wait_for<'c>(&'c mut self, asked: Asked<'c>, books: bool, read: Read<'c>) -> Waiting<'c, Outcome<Option<Row>>> {
        Box::pin(async move {
            let mut row = self.finish(read).await?;
            while let Some(len) = row.as_ref().map(Row::bytes)
                && len >= LONG_VALUE_BYTES
                && books
                && !self.host.try_hold(len)
            {
                drop(row);
                self.host.hold(len).await?;
                let again = self.ask(asked);
                row = self.finish(again).await?;
                if row.as_ref().is_none_or(|row| row.bytes() <= len) {
                    break;
                }
                // The value has grown meanwhile.
                self.host.let_go();
            }
            Ok(row)
        })
    }

    /// While a read waits, the answer so far must not hold on to values of the store: those whom the read waits for may
    /// themselves wait for that memory.
    async fn finish(&mut self, read: Read<'_>) -> Outcome<Option<Row>> {
        Ok(match read {
            Read::Ready(row) => row?,
            Read::Pending(read) => letting_go(read, || self.host.replies().own_values()).await?,
        })
    }

    /// The place from which a page begins at `key`, or at the first key behind it.
    pub fn place(&self, key: &[u8]) -> Vec<u8> {
        self.rows.place(key)
    }

    /// The place at which the `SCAN` with the number `cursor` goes on.
    ///
    /// # Errors
    /// The number is unknown, or too old.
    pub fn cursor(&self, cursor: u64) -> Outcome<Vec<u8>> {
        self.host.cursor(self.call.database, cursor)
    }

    /// A number for a `SCAN` that goes on at `place`.
    ///
    /// # Errors
    /// The host remembers no cursors.
    pub fn new_cursor(&mut self, place: Vec<u8>) -> Outcome<u64> {
        self.host.new_cursor(self.call.database, place)
    }

    /// Sets the value of `key`, until `expire_at_ms` (milliseconds since 1970; `None` = for ever).
    ///
    /// # Errors
    /// The key is too long.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8], expire_at_ms: Option<u64>) -> Outcome {
        self.put_in(self.call.database, key, value, expire_at_ms)
    }

    /// As [`Context::put`], in another database of the same tenant.
    ///
    /// # Errors
    /// The key is too long, or the value.
    #[inline]
    pub fn put_in(&mut self, database: u8, key: &[u8], value: &[u8], expire_at_ms: Option<u64>) -> Outcome {
        if key.len() > KEY_BYTES_MAX {
            return Err(KEY_TOO_LONG);
        }
        check_value(value)?;
        self.call.longest = self.call.longest.max(value.len());
        self.draft.push_row(self.call.databases.number(database), Change::Put { key, value, expire_at_ms });
        Ok(())
    }

    /// Sets the content of `key` in `database`; otherwise as [`Context::put`]. A head has to be of the life that the
    /// row has already, or of one that [`Context::new_head`] has begun.
    ///
    /// # Errors
    /// The key is too long.
    pub fn put_content(&mut self, database: u8, key: &[u8], content: &Content, expire_at_ms: Option<u64>) -> Outcome {
        match content {
            Content::String(value) => self.put_in(database, key, value, expire_at_ms),
            Content::Parts(head) => self.put_head_in(database, key, head, expire_at_ms),
        }
    }

    fn put_head_in(&mut self, database: u8, key: &[u8], head: &Head, expire_at_ms: Option<u64>) -> Outcome {
        if key.len() > KEY_BYTES_MAX {
            return Err(KEY_TOO_LONG);
        }
        let (bytes, stored_ms) = head.encode_until(expire_at_ms);
        let number = self.call.databases.number(database);
        self.draft.push_row(number, Change::Head { key, head: &bytes, expire_at_ms: stored_ms });
        self.draft.keep_head(head, expire_at_ms);
        Ok(())
    }

    /// Deletes `key`, whatever its type was. The code that applies the batch gives the row's parts back.
    ///
    /// # Errors
    /// The key is too long.
    pub fn delete(&mut self, key: &[u8]) -> Outcome {
        if key.len() > KEY_BYTES_MAX {
            return Err(KEY_TOO_LONG);
        }
        self.draft.push_row(self.number(), Change::Delete { key });
        Ok(())
    }

    /// Where the next change goes.
    pub(crate) fn mark(&self) -> BatchMark {
        self.draft.mark()
    }

    /// Takes back the changes behind `mark`, which the command has made itself.
    pub(crate) fn rewind(&mut self, mark: BatchMark) {
        self.draft.rewind(mark);
    }

    /// Ends the command: gives its changes together with those that were in the draft before. The changes of a command
    /// that has failed are dropped.
    pub fn end(mut self, outcome: Outcome) -> Finished {
        // An answer that is too long is refused, so what the command wants written must not be written.
        let outcome = if self.is_locked { outcome.and_then(|()| self.check_kept()) } else { outcome };
        let elements = self.host.replies().take_written();
        if elements > 0 {
            self.call.bill.work.count(Module::ReplyElement, elements);
        }
        self.call.wrote = outcome.is_ok() && !self.draft.since(self.begin).is_empty();
        if outcome.is_err() {
            self.draft.rewind(self.begin);
            self.draft.forget_events(self.begin_events);
        } else {
            self.call.bill.wrote(self.draft.since(self.begin));
        }
        if self.call.wrote {
            let is_first = self.begin == BatchMark::default();
            self.draft.is_quiet = self.is_quiet && (is_first || self.draft.is_quiet);
        }
        Finished { outcome, draft: self.draft }
    }
}

/// How far a read has come without waiting.
enum Look<'k> {
    Done(Outcome<Option<Row>>),
    Waits(Read<'k>),
}

/// The result of a command.
pub struct Finished {
    /// Whether the command has answered or failed.
    pub outcome: Outcome,
    /// The changes that the command wants written, behind those that were in the draft before it.
    pub draft: Draft,
}

/// Refuses a value that is too long for a batch. It may be longer than a client's words: it is made of several, or more
/// stands in front of it.
fn check_value(value: &[u8]) -> Outcome {
    if value.len() > VALUE_BYTES_MAX { Err(TOO_LONG) } else { Ok(()) }
}

fn string_of(row: Option<Row>) -> Outcome<Option<StringRow>> {
    row.map(|row| row.into_string().ok_or(WRONG_TYPE)).transpose()
}

#[cfg(test)]
mod tests {
    use weir_io::Rng;
    use weir_model::{Batch, Value};

    use super::*;
    use crate::error::SYNTAX;
    use crate::headless::Headless;
    use crate::polled;
    use crate::reply::Protocol;
    use crate::rows::{Page, Waiting};

    /// Every key has its own name as its value.
    struct Names;

    impl Rows for Names {
        fn get<'a>(&'a self, _: u8, key: &'a [u8], _: u64) -> Read<'a> {
            Read::Ready(Ok(Some(Row::string(Value::from(key.to_vec()), None))))
        }

        fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, weir_io::Result<Page>> {
            unreachable!("no test goes through all keys")
        }
    }

    #[test]
    fn a_command_sees_its_own_writes_and_one_that_fails_leaves_none() {
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
        let mut call = Call::new(2, 1000, 100);
        let mut before = Batch::new();
        before.push_row(2, Change::Put { key: b"before", value: b"1", expire_at_ms: None });
        let kept = before.clone();
        let mut cx = Context::locked(&Names, &mut host, &mut call, before.into());
        let value = |cx: &mut Context<'_>, database, key: &[u8]| {
            let row = polled::turns(cx.get_in(database, key)).1.expect("it is read");
            let row = row.and_then(Row::into_string);
            row.map(|row| String::from_utf8(row.value.to_vec()).expect("text"))
        };
        assert_eq!(value(&mut cx, 2, b"before").as_deref(), Some("1"), "of the command in front of it");
        cx.put(b"k", b"1", None).expect("short");
        cx.put(b"k", b"2", Some(1001)).expect("short");
        assert_eq!(value(&mut cx, 2, b"k").as_deref(), Some("2"), "the last one");
        assert_eq!(value(&mut cx, 3, b"k").as_deref(), Some("k"), "of another database");
        cx.put(b"k", b"3", Some(1000)).expect("short");
        assert_eq!(value(&mut cx, 2, b"k"), None, "it has expired by now");
        cx.delete(b"gone").expect("short");
        assert_eq!(value(&mut cx, 2, b"gone"), None);
        assert_eq!(value(&mut cx, 2, b"other").as_deref(), Some("other"));
        let finished = cx.end(Err(SYNTAX));
        assert_eq!(finished.draft.into_batch(), kept);
    }
}
