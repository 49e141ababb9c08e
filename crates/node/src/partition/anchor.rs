//! The anchor: what a partition remembers of itself outside of log and tree. Bytes in `docs/format/anchor.md`.
//!
//! A log cannot tell that its last segment is missing or is an older copy of itself; a manifest cannot tell that its
//! last edits are. The anchor can: it says up to where records were durable, and up to where they were in tables. A
//! partition that falls short of its anchor is refused when it is opened.
//!
//! 1. A claim is true for ever once it is true. So the anchor may lag behind, and may be written in any order with
//!    everything else: an older claim only detects less.
//! 2. A loss within the anchor's lag is not noticed: a second or two behind the last write, and [`ROUNDS_MAX`] rounds
//!    of the control loop while there are writes. Every claim is synced, or a power cut would take it.
//! 3. The anchor does not lag where the tree is about to be the only one that has something: before log segments are
//!    removed, and after a flush where the log is never synced. Otherwise an older manifest would pass as complete. Nor
//!    does it lag behind the log after an opening.
//! 4. It is written in two places by turns, so that a torn write leaves the claim before it. A write that may not have
//!    reached the device is followed by another write to the same place, because the other place has the last claim
//!    that is on the device for sure.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use weir_io::plant::{Plant, is_planted};
use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, OpenOptions, Owner, PAGE, Result, Tag};
use weir_log::{LogAnchor, LogIndex};

/// Its name in the partition's directory.
pub(crate) const NAME: &str = "ANCHOR";
const TEMPORARY: &str = "ANCHOR.tmp";
const MAGIC: &[u8; 8] = b"WEIRANCH";
const VERSION: u32 = 1;
const SLOTS: u64 = 2;
/// Bytes of a slot that mean something; the last four are the checksum of those before them.
const SLOT_BYTES: usize = 60;
const CHECKED_BYTES: usize = SLOT_BYTES - 4;
/// Rounds of the control loop after which a claim is written while the partition is being written to. Each costs a
/// sync.
const ROUNDS_MAX: u32 = 4;

/// The claim of an anchor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnchorClaim {
    /// Every record of the log up to here was on the device.
    pub durable: LogIndex,
    /// Every record up to here was in the tree's tables.
    pub persisted: LogIndex,
}

impl AnchorClaim {
    fn max(self, other: Self) -> Self {
        Self { durable: self.durable.max(other.durable), persisted: self.persisted.max(other.persisted) }
    }
}

/// One slot of an anchor's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnchorSlot {
    /// The slot with the larger number is newer.
    pub sequence: u64,
    /// The owner of the partition.
    pub owner: Owner,
    /// Drawn when the partition was made; every segment of its log has the same identity.
    pub identity: u64,
    /// The claim in this slot.
    pub claim: AnchorClaim,
}

impl AnchorSlot {
    fn encode(&self) -> AlignedBuf {
        let mut page = AlignedBuf::with_len(PAGE);
        page[..8].copy_from_slice(MAGIC);
        page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        page[12..16].copy_from_slice(&self.owner.tenant.to_le_bytes());
        page[16..20].copy_from_slice(&self.owner.partition.to_le_bytes());
        let words = [self.sequence, self.identity, self.claim.durable, self.claim.persisted];
        for (word, place) in words.into_iter().zip(page[24..CHECKED_BYTES].chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c(&page[..CHECKED_BYTES]);
        page[CHECKED_BYTES..SLOT_BYTES].copy_from_slice(&crc.to_le_bytes());
        page
    }

    /// Decodes any bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let slot = bytes.first_chunk::<SLOT_BYTES>().ok_or("it is truncated")?;
        if slot[..8] != MAGIC[..] {
            return Err("this is not an anchor: the magic number is missing");
        }
        let half = |at: usize| u32::from_le_bytes(slot[at..at + 4].try_into().expect("four bytes"));
        let word = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("eight bytes"));
        if half(CHECKED_BYTES) != crc32c::crc32c(&slot[..CHECKED_BYTES]) {
            return Err("its checksum does not match");
        }
        if half(8) != VERSION {
            return Err("it has a format version that this program does not know");
        }
        Ok(Self {
            owner: Owner { tenant: half(12), partition: half(16) },
            sequence: word(24),
            identity: word(32),
            claim: AnchorClaim { durable: word(40), persisted: word(48) },
        })
    }
}

/// The anchor of an open partition.
pub(crate) struct Anchor {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    owner: Owner,
    identity: u64,
    /// One writes at a time.
    state: AsyncMutex<NewestSlot>,
    /// Taken alone, or by the writer.
    pace: Mutex<Pace>,
}

struct NewestSlot {
    /// The sequence number of the newest slot.
    sequence: u64,
    written: AnchorClaim,
    standing: Standing,
}

/// Whether the newest slot is on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// For sure.
    Durable,
    /// It was read. The process that wrote it may not have come to sync it, or a sync may have failed. It is written
    /// once more as it is, which cannot harm it if it is there.
    Read,
    /// It was written, or a write of it failed, and no sync has succeeded since. A sync that succeeds after one that
    /// has failed says nothing about it.
    Written,
}

/// When a claim that nobody waits for is worth a write.
#[derive(Default)]
struct Pace {
    written: AnchorClaim,
    /// The claim that the round before saw.
    seen: AnchorClaim,
    /// Rounds in which something was new.
    rounds: u32,
}

impl Pace {
    /// At once if a round brought nothing more, because that may be the last news for long; every few rounds if news
    /// keeps coming.
    fn is_due(&mut self, claim: AnchorClaim) -> bool {
        if claim.max(self.written) == self.written {
            self.rounds = 0;
            return false;
        }
        let is_idle = self.seen == claim;
        (self.seen, self.rounds) = (claim, self.rounds + 1);
        let is_due = is_idle || self.rounds >= ROUNDS_MAX;
        if is_due {
            self.rounds = 0;
        }
        is_due
    }
}

/// What the anchor of the partition in `dir` says. Changes nothing.
///
/// # Errors
/// `Corruption`, naming the file: it is missing, damaged, or another partition's.
pub(crate) async fn read(fs: &Arc<dyn Fs>, dir: &Path, owner: Owner) -> Result<AnchorSlot> {
    let (path, tag) = (dir.join(NAME), Tag::new(owner, Class::Maintenance));
    let file = match fs.open(&path, OpenOptions::read_buffered(), tag).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::corruption(
                &path,
                0,
                "the file is missing, although the partition was in use: see `weir repair`",
            ));
        }
        file => file?,
    };
    let bytes = file.read_at(0, AlignedBuf::with_len(SLOTS as usize * PAGE), tag).await?;
    let slots = bytes.chunks(PAGE).map(AnchorSlot::decode);
    // One slot may be torn, or never have been written: then the other one decides.
    let mut wrong = "the file is empty";
    let newest = slots.filter_map(|slot| slot.inspect_err(|error| wrong = error).ok()).max_by_key(|slot| slot.sequence);
    let mut slot = newest.ok_or_else(|| Error::corruption(&path, 0, format!("{wrong}: see `weir repair`")))?;
    if is_planted(Plant::AnchorIgnored) {
        slot.claim = AnchorClaim::default();
    }
    if slot.owner != owner {
        let message = format!("it is the anchor of another partition ({}): see `weir repair`", slot.owner.partition);
        return Err(Error::corruption(&path, 0, message));
    }
    Ok(slot)
}

/// Whether a tree that holds the log's records up to `persisted` is as new as the `claim` says.
///
/// # Errors
/// `Corruption`, naming `manifest`.
pub(crate) fn compare(claim: AnchorClaim, persisted: LogIndex, manifest: &Path) -> Result<()> {
    if persisted >= claim.persisted {
        return Ok(());
    }
    let message = format!(
        "the tree holds records up to {persisted}, but held records up to {} before: its manifest was replaced by an \
         older copy, or was truncated",
        claim.persisted
    );
    Err(Error::corruption(manifest, 0, message))
}

/// Makes the anchor of the partition in `dir`, durably, replacing one that may be there.
pub(crate) async fn create(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    owner: Owner,
    identity: u64,
    claim: AnchorClaim,
) -> Result<AnchorSlot> {
    let tag = Tag::new(owner, Class::Maintenance);
    let temporary = dir.join(TEMPORARY);
    match fs.remove(&temporary, tag).await {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let slot = AnchorSlot { sequence: 0, owner, identity, claim };
    let file = fs.open(&temporary, OpenOptions::create_new_buffered(), tag).await?;
    // Both slots have their blocks from the beginning: on a full disk a claim can still be written.
    for number in 0..SLOTS {
        file.write_at(number * PAGE as u64, slot.encode(), tag).await?;
    }
    file.sync(tag).await?;
    fs.rename(&temporary, &dir.join(NAME), tag).await?;
    fs.sync_dir(dir, tag).await?;
    Ok(slot)
}

impl Anchor {
    /// The anchor of a partition in `dir` that is being opened. `slot` is its newest slot.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, slot: AnchorSlot) -> Self {
        let AnchorSlot { sequence, owner, identity, claim } = slot;
        let state = AsyncMutex::new(NewestSlot { sequence, written: claim, standing: Standing::Read });
        // Partitions that are written to all the time must not sync their anchors in the same round.
        let rounds = owner.partition % ROUNDS_MAX;
        let pace = Mutex::new(Pace { written: claim, rounds, ..Pace::default() });
        Self { fs, path: dir.join(NAME), owner, identity, state, pace }
    }

    /// What the log has to agree with, if `durable` is what the anchor said.
    pub fn of_log(&self, durable: LogIndex) -> LogAnchor {
        LogAnchor { identity: self.identity, durable }
    }

    /// Whether it is time to [`Anchor::hold`] `claim`. To be asked once in each round of the control loop.
    pub fn is_due(&self, claim: AnchorClaim) -> bool {
        self.pace.lock().is_due(claim)
    }

    /// Makes `claim` durable. The I/O is of `class`.
    pub async fn hold(&self, claim: AnchorClaim, class: Class) -> Result<()> {
        let mut state = self.state.lock().await;
        if state.standing == Standing::Read {
            state.standing = Standing::Written;
            self.put(&state, class).await?;
            self.sync(class).await?;
            state.standing = Standing::Durable;
        }
        if state.standing == Standing::Durable && claim.max(state.written) == state.written {
            return Ok(());
        }
        self.write(&mut state, claim, class).await?;
        self.sync(class).await?;
        state.standing = Standing::Durable;
        // Not before: a claim that is not durable is due again, even if nothing more comes.
        self.pace.lock().written = state.written;
        Ok(())
    }

    async fn sync(&self, class: Class) -> Result<()> {
        let tag = Tag::new(self.owner, class);
        let file = self.fs.open(&self.path, OpenOptions::read_buffered(), tag).await?;
        file.sync(tag).await
    }

    /// Writes to the slot that does not hold the last durable claim.
    async fn write(&self, state: &mut NewestSlot, claim: AnchorClaim, class: Class) -> Result<()> {
        // An attempt that fails takes a number, too: what it has written may be there some day.
        state.sequence += if state.standing == Standing::Written { SLOTS } else { 1 };
        state.standing = Standing::Written;
        state.written = claim.max(state.written);
        self.put(state, class).await
    }

    async fn put(&self, state: &NewestSlot, class: Class) -> Result<()> {
        let (tag, &NewestSlot { sequence, written: claim, .. }) = (Tag::new(self.owner, class), state);
        let slot = AnchorSlot { sequence, owner: self.owner, identity: self.identity, claim };
        let writable = OpenOptions { write: true, create_new: false, direct: false, dsync: false };
        let file = self.fs.open(&self.path, writable, tag).await?;
        file.write_at(sequence % SLOTS * PAGE as u64, slot.encode(), tag).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_io::sim::{DeviceSpec, FaultPlan, Keep, Sim, SimFs};

    const OWNER: Owner = Owner { tenant: 3, partition: 7 };

    fn claim(durable: LogIndex, persisted: LogIndex) -> AnchorClaim {
        AnchorClaim { durable, persisted }
    }

    proptest! {
        #[test]
        fn a_slot_is_what_was_written_and_any_flipped_bit_is_noticed(
            words: [u64; 4], halves: [u32; 2], bit in 0..SLOT_BYTES * 8
        ) {
            let [sequence, identity, durable, persisted] = words;
            let [tenant, partition] = halves;
            let slot = AnchorSlot {
                sequence, identity, owner: Owner { tenant, partition }, claim: claim(durable, persisted),
            };
            let mut page = slot.encode();
            prop_assert_eq!(AnchorSlot::decode(&page), Ok(slot));
            page[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(AnchorSlot::decode(&page).is_err());
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
            let _ = AnchorSlot::decode(&bytes);
        }
    }

    #[test]
    fn a_claim_is_written_when_it_may_be_the_last_for_long_and_else_now_and_then() {
        let mut pace = Pace::default();
        assert!(!pace.is_due(claim(0, 0)), "nothing new");
        assert!(!pace.is_due(claim(5, 0)), "more may come at once");
        assert!(pace.is_due(claim(5, 0)), "no more came");
        pace.written = claim(5, 0);
        assert!(!pace.is_due(claim(5, 0)));
        let due: Vec<usize> =
            (0..50).filter(|&round| pace.is_due(claim(6 + round, 0))).map(|round| round as usize).collect();
        assert_eq!(due, (1..=12).map(|nth| nth * 4 - 1).collect::<Vec<_>>());
    }

    #[test]
    fn after_a_power_cut_there_is_a_claim_that_was_made_and_none_before_the_last_held() {
        for seed in 0..300 {
            let sim = Sim::new(seed);
            let mut rng = sim.rng();
            let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng.fork("disk"));
            let dir = Path::new("/p");
            let (held, last) = sim.block_on(async {
                let fs: Arc<dyn Fs> = disk.clone();
                let tag = Tag::new(OWNER, Class::Maintenance);
                fs.create_dir_all(dir, tag).await.expect("create");
                fs.sync_dir(Path::new("/"), tag).await.expect("sync");
                let slot = create(&fs, dir, OWNER, 11, claim(0, 0)).await.expect("create");
                let anchor = Anchor::new(fs, dir, slot);
                let (mut held, mut last) = (0, 0);
                for _ in 0..rng.below(12) {
                    last += rng.below(3);
                    if rng.chance(0.3) {
                        anchor.hold(claim(last, 0), Class::Flush).await.expect("hold");
                        held = last;
                    } else {
                        // The power goes before the sync.
                        let mut state = anchor.state.lock().await;
                        anchor.write(&mut state, claim(last, 0), Class::Flush).await.expect("write");
                    }
                }
                (held, last)
            });
            let image = disk.crash_keeping(Keep::Random, &mut rng);
            let fs: Arc<dyn Fs> =
                SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng.fork("after"));
            let slot = sim.block_on(read(&fs, dir, OWNER)).expect("a whole slot");
            assert!((held..=last).contains(&slot.claim.durable), "seed {seed}: {held}, {last}, {slot:?}");
            assert_eq!(slot.identity, 11);
        }
    }

    #[test]
    fn a_claim_that_may_not_be_on_the_device_is_written_over_and_not_the_one_that_is() {
        let sim = Sim::new(1);
        let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let (dir, tag) = (Path::new("/p"), Tag::new(OWNER, Class::Maintenance));
        let claims_in = |fs: Arc<dyn Fs>| async move {
            let file = fs.open(&dir.join(NAME), OpenOptions::read_buffered(), tag).await.expect("it is there");
            let bytes = file.read_at(0, AlignedBuf::with_len(2 * PAGE), tag).await.expect("read");
            let slots = bytes.chunks(PAGE).map(|slot| AnchorSlot::decode(slot).expect("whole"));
            slots.map(|slot| slot.claim.durable).collect::<Vec<_>>()
        };
        sim.block_on(async {
            fs.create_dir_all(dir, tag).await.expect("create");
            let slot = create(&fs, dir, OWNER, 11, claim(0, 0)).await.expect("create");
            let anchor = Anchor::new(Arc::clone(&fs), dir, slot);
            for (held, slots) in [(5, [0, 5]), (6, [6, 5])] {
                anchor.hold(claim(held, 0), Class::Flush).await.expect("hold");
                assert_eq!(claims_in(Arc::clone(&fs)).await, slots, "by turns");
            }
            // Two syncs fail: 6 stays.
            for (held, slots) in [(7, [6, 7]), (8, [6, 8])] {
                let mut state = anchor.state.lock().await;
                anchor.write(&mut state, claim(held, 0), Class::Flush).await.expect("write");
                drop(state);
                assert_eq!(claims_in(Arc::clone(&fs)).await, slots);
            }
            anchor.hold(claim(8, 0), Class::Flush).await.expect("hold");
            assert_eq!(claims_in(Arc::clone(&fs)).await, [6, 8]);
            anchor.hold(claim(9, 0), Class::Flush).await.expect("hold");
            assert_eq!(claims_in(Arc::clone(&fs)).await, [9, 8], "8 is durable now");
            // The slot that the next one reads may not be durable, until it is written again and synced.
            let next = Anchor::new(Arc::clone(&fs), dir, read(&fs, dir, OWNER).await.expect("a slot"));
            next.hold(claim(10, 0), Class::Flush).await.expect("hold");
            assert_eq!(claims_in(Arc::clone(&fs)).await, [9, 10]);
        });
    }
}
