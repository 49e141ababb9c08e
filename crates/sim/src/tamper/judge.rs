//! The verdict on a directory that was tampered with: what `check` reports, and what a node makes of it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use weir_io::sim::DiskImage;

use super::belief::Belief;
use super::history::{DIR, History, partition_dir};
use super::read::Depth;
use super::see::{AFTER, Seen, TenantSeen, Use};
use super::ways::{Tampering, Way, partition_of};

/// A violation: something that must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// Something durable is missing, or an older value stands in its place, and nothing reports it.
    Lost,
    /// A value is there that was never written there.
    Invented,
    /// An error that does not say where to look.
    Unnamed,
    /// A tenant whose files were not touched is not served.
    Bystander,
    /// A tenant is gone, and the node opens nevertheless.
    TenantLost,
    /// A tenant that was dropped is back.
    Revenant,
    /// A tenant has settings that it had earlier.
    OldSettings,
    /// Files of a partition that was refused were removed.
    Deleted,
    /// `check` reports that all is well.
    CheckSilent,
    /// `check` complains of an untouched directory.
    FalseAlarm,
    /// Opened again, the directory shows something else than before.
    Changed,
    /// A panic, or a run that does not end.
    Panic,
}

impl Wrong {
    /// Its name, as a table shows it.
    pub fn name(self) -> &'static str {
        match self {
            Wrong::Lost => "durable data gone, or an older value, in silence",
            Wrong::Invented => "a value that was never written there",
            Wrong::Unnamed => "an error that names another place",
            Wrong::Bystander => "others are not served",
            Wrong::TenantLost => "a tenant is gone in silence",
            Wrong::Revenant => "a dropped tenant is back",
            Wrong::OldSettings => "settings of earlier",
            Wrong::Deleted => "files of what was refused are removed",
            Wrong::CheckSilent => "check says well",
            Wrong::FalseAlarm => "check complains of a sound directory",
            Wrong::Changed => "a second opening shows something else",
            Wrong::Panic => "panic or hang",
        }
    }
}

/// The outcome of one tampering.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Something was refused or answered with an error.
    pub refused: bool,
    /// Whether such an error names another file of the same partition, or of the same catalogue.
    pub elsewhere: bool,
    /// `check` found something.
    pub found: bool,
    /// The violations, with the story of each.
    pub wrongs: Vec<(Wrong, String)>,
}

impl Verdict {
    fn wrong(&mut self, wrong: Wrong, story: impl Into<String>) {
        self.wrongs.push((wrong, story.into()));
    }

    /// Notes that something is refused, for this reason.
    fn refuse(&mut self, tampering: &Tampering, complaint: &str) {
        self.refused = true;
        match place(tampering, complaint) {
            Pointer::There => {}
            Pointer::Nearby => self.elsewhere = true,
            Pointer::Nowhere => self.wrong(Wrong::Unnamed, complaint),
        }
    }
}

enum Pointer {
    There,
    Nearby,
    Nowhere,
}

/// Whether `complaint` points to the file that was tampered with.
fn place(tampering: &Tampering, complaint: &str) -> Pointer {
    let touched = tampering.touched();
    if touched.iter().any(|path| complaint.contains(&*path.to_string_lossy())) {
        return Pointer::There;
    }
    let area = |path: &Path| match partition_of(path) {
        Some(number) => partition_dir(number),
        None if path.parent() == Some(Path::new(DIR)) => path.file_name().unwrap_or_default().to_string_lossy().into(),
        // The two copies of a catalogue may name each other.
        None => format!("{DIR}/catalogue"),
    };
    match touched.iter().any(|path| complaint.contains(&area(path))) {
        true => Pointer::Nearby,
        false => Pointer::Nowhere,
    }
}

/// What opening an untouched directory removes: nobody misses it.
pub struct Expected {
    removed: BTreeSet<PathBuf>,
}

fn files(image: &DiskImage) -> BTreeSet<PathBuf> {
    image.files().into_iter().map(|(path, _)| path).collect()
}

impl History {
    /// Opens the untouched directory.
    pub fn expected(&self, seed: u64) -> Result<Expected, String> {
        let seen = self.see(seed, &self.image, Use::Read, |_| Depth::Scan);
        seen.opened?;
        Ok(Expected { removed: files(&self.image).difference(&files(&seen.left)).cloned().collect() })
    }

    /// Judges `image`, which is this directory after `tampering`.
    pub fn judge(&self, seed: u64, tampering: &Tampering, image: &DiskImage, expected: &Expected) -> Verdict {
        let judged = catch_unwind(AssertUnwindSafe(|| self.judge_running(seed, tampering, image, expected)));
        judged.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let mut verdict = Verdict::default();
            verdict.wrong(Wrong::Panic, text.unwrap_or_default());
            verdict
        })
    }

    fn judge_running(&self, seed: u64, tampering: &Tampering, image: &DiskImage, expected: &Expected) -> Verdict {
        let mut verdict = Verdict::default();
        let checked = self.check(seed, image);
        if tampering.way == Way::Untouched {
            self.alarms.iter().for_each(|alarm| verdict.wrong(Wrong::FalseAlarm, alarm));
        }
        verdict.found = checked.iter().any(|complaint| !matches!(place(tampering, complaint), Pointer::Nowhere));
        let touched: Vec<_> = tampering.touched().into_iter().map(partition_of).collect();
        let is_touched = |number| touched.iter().any(|touched| touched.is_none_or(|touched| touched == number));
        let whole_or = |number, other| if is_touched(number) { Depth::Whole } else { other };
        let seen = self.see(seed, image, Use::Write, |number| whole_or(number, Depth::Scan));
        self.judge_deletions(tampering, image, &seen, expected, &mut verdict);
        for name in &seen.revenants {
            verdict.wrong(Wrong::Revenant, format!("tenant {name}"));
        }
        match &seen.opened {
            Err(complaint) => {
                verdict.refuse(tampering, complaint);
                if tampering.touched().iter().all(|path| partition_of(path).is_some()) {
                    verdict.wrong(Wrong::Bystander, format!("the node is closed: {complaint}"));
                }
            }
            Ok(tenants) => {
                for (belief, tenant) in self.tenants.iter().zip(tenants) {
                    self.judge_tenant(tampering, belief, tenant, &mut verdict);
                }
            }
        }
        for complaint in &seen.complaints {
            verdict.refuse(tampering, complaint);
        }
        if let (Ok(tenants), Some(closed)) = (&seen.opened, &seen.closed) {
            let again = self.see(seed + 1, closed, Use::Read, |number| whole_or(number, Depth::Skip));
            self.judge_again(tampering, tenants, again, &mut verdict);
        }
        let lost = verdict.wrongs.iter().any(|(wrong, _)| !matches!(wrong, Wrong::Deleted | Wrong::FalseAlarm));
        if (verdict.refused || lost) && !verdict.found {
            let said = checked.first().map_or("all is well".to_owned(), |complaint| format!("only: {complaint}"));
            verdict.wrong(Wrong::CheckSilent, said);
        }
        verdict
    }

    fn judge_deletions(
        &self,
        tampering: &Tampering,
        image: &DiskImage,
        seen: &Seen,
        expected: &Expected,
        verdict: &mut Verdict,
    ) {
        let (before, after) = (files(image), files(&seen.left));
        let mut missing: Vec<_> = before.difference(&after).filter(|path| !expected.removed.contains(*path)).collect();
        if let Ok(tenants) = &seen.opened {
            // Tenants that are served were judged by what was read of them.
            let refused: BTreeSet<u32> = (self.tenants.iter().zip(tenants))
                .flat_map(|(belief, tenant)| match tenant {
                    TenantSeen::Gone => belief.shards.iter().map(|shard| shard.number).collect::<Vec<_>>(),
                    TenantSeen::There { reads, .. } => {
                        let shards = belief.shards.iter().zip(reads);
                        shards.filter(|(_, read)| read.refused).map(|(shard, _)| shard.number).collect()
                    }
                })
                .collect();
            missing.retain(|path| partition_of(path).is_some_and(|number| refused.contains(&number)));
        }
        missing.retain(|path| !tampering.touched().contains(&path.as_path()) || tampering.way == Way::Doubled);
        missing.retain(|path| !path.ends_with("LOCK") && !path.to_string_lossy().ends_with(".tmp"));
        if let Some(path) = missing.first() {
            verdict.wrong(Wrong::Deleted, format!("{} files, among them {}", missing.len(), path.display()));
        }
    }

    fn judge_tenant(&self, tampering: &Tampering, belief: &Belief, tenant: &TenantSeen, verdict: &mut Verdict) {
        let TenantSeen::There { disk_bytes_max, reads } = tenant else {
            return verdict.wrong(Wrong::TenantLost, format!("tenant {}", belief.name));
        };
        if *disk_bytes_max != belief.disk_bytes_max {
            verdict.wrong(Wrong::OldSettings, format!("tenant {}", belief.name));
        }
        let touched: Vec<_> = tampering.touched().into_iter().filter_map(partition_of).collect();
        let hits_all = tampering.touched().iter().any(|path| partition_of(path).is_none());
        for (shard, read) in belief.shards.iter().zip(reads) {
            for complaint in &read.complaints {
                verdict.refuse(tampering, complaint);
            }
            if !read.complaints.is_empty() && !hits_all && !touched.contains(&shard.number) {
                let complaint = &read.complaints[0];
                verdict.wrong(Wrong::Bystander, format!("partition {} was not touched: {complaint}", shard.number));
            }
            if read.refused || shard.accepted.iter().rev().any(|state| read.shows(state, self.unix_ms)) {
                continue;
            }
            let Some(right) = shard.accepted.last() else { continue };
            let lines = format!(
                "partition {} of {}: {}",
                shard.number,
                belief.name,
                read.differences(right, self.unix_ms).join("; ")
            );
            let was_there =
                |key: &Vec<u8>, value: &Vec<u8>| shard.keys.get(key).is_some_and(|values| values.contains(value));
            let values = read.keys.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
            let pairs = values.chain(read.visible.iter().map(|(key, value)| (key, value)));
            let wrong =
                if pairs.into_iter().all(|(key, value)| was_there(key, value)) { Wrong::Lost } else { Wrong::Invented };
            verdict.wrong(wrong, lines);
        }
    }

    /// Opens what the node left once more: everything must be as it was read before, or refused.
    fn judge_again(&self, tampering: &Tampering, before: &[TenantSeen], again: Seen, verdict: &mut Verdict) {
        let tenants = match again.opened {
            Ok(tenants) => tenants,
            Err(complaint) => {
                verdict.refuse(tampering, &complaint);
                return verdict.wrong(Wrong::Changed, complaint);
            }
        };
        for ((belief, before), after) in self.tenants.iter().zip(before).zip(&tenants) {
            let (TenantSeen::There { reads: before, .. }, TenantSeen::There { reads: after, .. }) = (before, after)
            else {
                continue;
            };
            for ((shard, before), after) in belief.shards.iter().zip(before).zip(after) {
                for complaint in &after.complaints {
                    verdict.refuse(tampering, complaint);
                }
                let same = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| {
                    before.keys.get(key).is_none_or(|earlier| earlier == value)
                };
                if !after.keys.iter().all(same) {
                    verdict.wrong(Wrong::Changed, format!("partition {} of {}", shard.number, belief.name));
                }
                let after_is_there = after.visible.iter().any(|(key, _)| key == AFTER);
                if !before.refused && after.whole && !after_is_there && again.complaints.is_empty() {
                    let story = format!("partition {} of {} lost what was written last", shard.number, belief.name);
                    verdict.wrong(Wrong::Changed, story);
                }
            }
        }
    }
}
