//! Reads a member's records back, from among those of others.

use std::path::Path;
use std::sync::Arc;

use weir_io::{Class, Error, ErrorKind, Fs, Op, OpenOptions, PAGE, Result, Tag, Turn, yield_now};
use weir_model::LogIndex;

use super::sorted::Taken;
use super::survey;
use super::tag::RecordTag;
use super::unflushed::Unflushed;
use super::{MemberOpening, Shared};
use crate::reader::Reader;
use crate::record::{self, Decoded, Kind};
use crate::recover::Recovery;
use crate::segment::{self, HEADER_PAGE};
use crate::state::Searched;

/// Fewer bytes than this between two records are read in vain rather than skipped: starting a new read costs about as
/// much.
const PASSED_BYTES_MIN: u64 = 256 << 10;

/// Passes the `unflushed` records of a member to `apply`, after checking that none is missing. As many as possible come
/// from the records `taken` for it when the log was read.
pub(super) async fn replay(
    shared: &Shared,
    opening: &MemberOpening,
    unflushed: &Unflushed,
    taken: Option<Taken>,
    apply: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<Recovery> {
    let mut recovery = survey::judge(&shared.dir, &shared.recovery, opening, unflushed)?;
    let (mut unflushed, mut opening) = (unflushed.clone(), *opening);
    match (taken, unflushed.first_index()) {
        (Some(taken), Some(first)) => {
            let mut bytes = 0;
            let mut counted = |index, payload: &[u8]| {
                bytes += payload.len() as u64;
                apply(index, payload)
            };
            let next = taken.read(&unflushed, &mut counted).await?;
            (recovery.records, recovery.payload_bytes) = (next - first, bytes);
            unflushed.drop_through(next - 1);
            opening.persisted = next - 1;
        }
        // All of them are in tables or were carried. If nobody else has records in the file, it goes.
        (Some(taken), None) => taken.discard().await,
        (None, _) => {}
    }
    let (unflushed, opening) = (&unflushed, &opening);
    read(shared, opening, unflushed, &mut recovery, apply).await?;
    Ok(recovery)
}

/// Passes the `unflushed` records of a member, which begin with the one behind its persisted one, to `apply`.
pub(super) async fn read(
    shared: &Shared,
    opening: &MemberOpening,
    unflushed: &Unflushed,
    recovery: &mut Recovery,
    apply: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<()> {
    let (Some(first), Some(last)) = (unflushed.first_place(), unflushed.last_place()) else { return Ok(()) };
    let (fs, identity, next) = (&shared.fs, shared.options.log.anchor.identity, opening.persisted + 1);
    let mut reader = MemberReader { fs, identity, opening, unflushed, next, turn: Turn::new() };
    for segment in shared.log.segments_with(first, last) {
        reader.read(&segment, recovery, apply).await?;
    }
    if unflushed.last_index().is_none_or(|last| reader.next > last) {
        return Ok(());
    }
    let (member, index) = (opening.member, reader.next);
    let message = format!("member {member}: record {index} is not where it was when the log was opened");
    Err(Error::corruption(&shared.dir, 0, message))
}

struct MemberReader<'a> {
    fs: &'a Arc<dyn Fs>,
    identity: u64,
    opening: &'a MemberOpening,
    unflushed: &'a Unflushed,
    /// The index of the next record to be read.
    next: LogIndex,
    turn: Turn,
}

impl MemberReader<'_> {
    /// Reads the member's records in one segment.
    async fn read(
        &mut self,
        segment: &Searched,
        recovery: &mut Recovery,
        apply: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
    ) -> Result<()> {
        let unflushed = self.unflushed;
        let wanted = |next| unflushed.place_of(next).filter(|place| *place <= segment.last);
        let Some(mut place) = wanted(self.next) else { return Ok(()) };
        let (path, tag) = (&segment.path, Tag::new(self.opening.owner, Class::Log));
        let file = self.fs.open(path, OpenOptions::read_buffered(), tag).await?;
        let mut reader = Reader::new(Arc::clone(&file), tag).await?;
        let seed = segment::check_header(path, segment_id(path)?, self.identity, reader.bytes(0, PAGE).await?)?;
        recovery.segments += 1;
        let (mut offset, mut expected) = (HEADER_PAGE, None);
        loop {
            if let Some((known, at)) = segment.signposts.before(place)
                && at >= offset + PASSED_BYTES_MIN
            {
                reader = Reader::new(Arc::clone(&file), tag).await?;
                (offset, expected) = (at, Some(known));
            }
            match reader.decode(offset, seed).await? {
                Decoded::Record(record) if expected.is_none_or(|expected| record.index == expected) => {
                    let (length, is_data) = (record.encoded_len(), record.kind == Kind::Data);
                    expected = Some(record.index + u64::from(is_data));
                    if is_data && record.index == place {
                        let wrong = |wrong| Error::corruption(path, offset, wrong);
                        let (tag, payload) = RecordTag::decode(record.payload).map_err(wrong)?;
                        let is_own = tag.identity.is_none_or(|identity| identity == self.opening.identity);
                        if !is_own || (tag.member, tag.index) != (self.opening.member, self.next) {
                            return Err(wrong("this is not the record that was here when the log was opened"));
                        }
                        apply(tag.index, payload).await?;
                        self.next += 1;
                        recovery.records += 1;
                        recovery.payload_bytes += payload.len() as u64;
                        match wanted(self.next) {
                            Some(next) => place = next,
                            None => return Ok(()),
                        }
                    }
                    offset += length as u64;
                    if self.turn.spend(length) {
                        yield_now().await;
                    }
                }
                // This is padding: the records go on at the next page, or not at all.
                _ if !offset.is_multiple_of(PAGE as u64) => offset = record::next_page(offset),
                _ => return Ok(()),
            }
        }
    }
}

fn segment_id(path: &Path) -> Result<u64> {
    let name = path.file_name().and_then(|name| name.to_str());
    let no_segment = || Error::new(ErrorKind::Invalid, "read", path, "its name is not that of a log segment");
    name.and_then(segment::parse_name).ok_or_else(no_segment)
}
