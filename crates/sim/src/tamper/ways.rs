//! Ways to tamper with one file (or one entry of a directory), and where in a directory each applies.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use weir_io::sim::DiskImage;
use weir_io::{PAGE, Rng};

use super::history::{DIR, History};

/// A way to tamper with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Nothing: the directory is as the last process left it.
    Untouched,
    /// It is gone; a directory is gone with everything in it.
    Lost,
    /// Its name is there, but no bytes.
    Emptied,
    /// It ends too early: anywhere.
    Cut,
    /// It ends too early: at the end of a page.
    CutAtPage,
    /// It ends too early: at the end of a record.
    CutAtRecord,
    /// A wrong bit in its first 64 bytes.
    FlippedHead,
    /// A wrong bit in its last 64 bytes that are not zero.
    FlippedTail,
    /// A wrong bit anywhere in between.
    Flipped,
    /// A page of zeros.
    Zeroed,
    /// It has its contents of some time ago, the last that were different.
    Older,
    /// It has its first contents.
    Oldest,
    /// The file of the same name of another partition.
    Neighbours,
    /// The file of the same name in another node's directory.
    Strangers,
    /// It and another file of its kind have exchanged names.
    Swapped,
    /// A second copy under the next number.
    Doubled,
}

impl Way {
    /// Its name, as a table shows it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Untouched => "untouched",
            Way::Lost => "lost",
            Way::Emptied => "emptied",
            Way::Cut => "cut",
            Way::CutAtPage => "cut at a page",
            Way::CutAtRecord => "cut at a record",
            Way::FlippedHead => "bit in its head",
            Way::FlippedTail => "bit in its tail",
            Way::Flipped => "bit",
            Way::Zeroed => "page zeroed",
            Way::Older => "older copy",
            Way::Oldest => "oldest copy",
            Way::Neighbours => "another partition's",
            Way::Strangers => "another node's",
            Way::Swapped => "swapped",
            Way::Doubled => "doubled",
        }
    }
}

/// One file that is tampered with in one way.
#[derive(Clone, Debug)]
pub struct Tampering {
    /// What is done.
    pub way: Way,
    /// The file or directory that is tampered with.
    pub path: PathBuf,
    /// The other file, for [`Way::Neighbours`], [`Way::Swapped`] and [`Way::Doubled`].
    pub other: Option<PathBuf>,
    /// The offset in bytes at which it is tampered with.
    at: u64,
}

impl fmt::Display for Tampering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.way.name())?;
        match (&self.other, self.way) {
            (Some(other), _) => write!(f, " ({})", other.display()),
            (None, Way::Untouched | Way::Lost | Way::Emptied | Way::Older | Way::Oldest | Way::Strangers) => Ok(()),
            (None, _) => write!(f, " at {}", self.at),
        }
    }
}

impl Tampering {
    /// The files that the tampering changes.
    pub fn touched(&self) -> Vec<&Path> {
        match (self.way, &self.other) {
            (Way::Untouched, _) => Vec::new(),
            (Way::Swapped | Way::Doubled, Some(other)) => vec![&self.path, other],
            _ => vec![&self.path],
        }
    }

    /// `image` after the tampering; `None` if nothing is different.
    pub fn apply(&self, history: &History, stranger: &DiskImage) -> Option<DiskImage> {
        let mut image = history.image.clone();
        let (path, before) = (&self.path, history.image.read(&self.path));
        let graft = |image: &mut DiskImage, to: &Path, source: &DiskImage, from: &Path| {
            image.graft(to, source, from).is_ok_and(|found| found)
        };
        let changed = match self.way {
            Way::Untouched => return Some(image),
            Way::Lost => image.remove(path),
            Way::Emptied => image.cut(path, 0),
            Way::Cut | Way::CutAtPage | Way::CutAtRecord => image.cut(path, self.at),
            Way::FlippedHead | Way::FlippedTail | Way::Flipped => image.flip_bit(path, self.at, (self.at % 8) as u8),
            Way::Zeroed => {
                let mut bytes = before.clone()?;
                let end = (self.at as usize + PAGE).min(bytes.len());
                bytes[self.at as usize..end].fill(0);
                image.insert(path, &bytes).is_ok()
            }
            Way::Older | Way::Oldest => {
                let mut differing = history.earlier.iter().filter(|earlier| {
                    let then = earlier.read(path);
                    then.is_some() && then != before
                });
                let earlier = if self.way == Way::Oldest { differing.next() } else { differing.next_back() };
                graft(&mut image, path, earlier?, path)
            }
            Way::Neighbours => graft(&mut image, path, &history.image, self.other.as_ref()?),
            Way::Strangers => graft(&mut image, path, stranger, path),
            Way::Swapped => {
                let other = self.other.as_ref()?;
                graft(&mut image, path, &history.image, other) && graft(&mut image, other, &history.image, path)
            }
            Way::Doubled => graft(&mut image, self.other.as_ref()?, &history.image, path),
        };
        let differs = || self.way == Way::Doubled || before.is_none() || image.read(path) != before;
        (changed && differs()).then_some(image)
    }
}

/// Every way that applies to each file and directory of `history`, in the order of their names.
pub fn all(history: &History, rng: &mut Rng) -> Vec<Tampering> {
    let files: Vec<(PathBuf, u64)> =
        history.image.files().into_iter().filter(|(path, _)| path.starts_with(DIR)).collect();
    let mut dirs = BTreeSet::new();
    for (path, _) in &files {
        dirs.extend(path.ancestors().skip(1).filter(|dir| dir.starts_with(DIR) && *dir != Path::new(DIR)));
    }
    let lost = |dir: &Path| Tampering { way: Way::Lost, path: dir.into(), other: None, at: 0 };
    let mut tamperings = vec![Tampering { way: Way::Untouched, ..lost(Path::new(DIR)) }];
    tamperings.extend(dirs.into_iter().map(lost));
    for (path, _) in &files {
        let bytes = history.image.read(path).unwrap_or_default();
        file(path, &bytes, &files, &mut tamperings, &mut rng.fork("file"));
    }
    tamperings
}

fn file(path: &Path, bytes: &[u8], files: &[(PathBuf, u64)], tamperings: &mut Vec<Tampering>, rng: &mut Rng) {
    let mut add = |way, at, other| tamperings.push(Tampering { way, path: path.into(), other, at });
    add(Way::Lost, 0, None);
    // After this point there is only reserved space.
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1);
    if end > 0 {
        add(Way::Emptied, 0, None);
        add(Way::Cut, rng.below(end), None);
        add(Way::FlippedHead, rng.below(end.min(64)), None);
        add(Way::FlippedTail, end - 1 - rng.below(end.min(64)), None);
        add(Way::Flipped, rng.below(end), None);
        add(Way::Flipped, rng.below(end), None);
        let page = PAGE as u64;
        add(Way::Zeroed, rng.below(end.div_ceil(page)) * page, None);
        add(Way::Zeroed, (end - 1) / page * page, None);
        if end > page {
            add(Way::CutAtPage, (1 + rng.below((end - 1) / page)) * page, None);
        }
        let ends = record_ends(path, bytes);
        for end in pick_two(&ends, rng) {
            add(Way::CutAtRecord, end, None);
        }
    }
    add(Way::Older, 0, None);
    add(Way::Oldest, 0, None);
    add(Way::Strangers, 0, None);
    let same_name = |(other, _): &&(PathBuf, u64)| other != path && other.file_name() == path.file_name();
    let neighbours: Vec<_> = files.iter().filter(same_name).collect();
    for (other, _) in pick_two(&neighbours, rng) {
        add(Way::Neighbours, 0, Some(other.clone()));
    }
    let in_place = |(other, _): &&(PathBuf, u64)| other > &path.to_path_buf() && other.parent() == path.parent();
    let kind = kind(path);
    let siblings: Vec<_> = files.iter().filter(in_place).filter(|(other, _)| self::kind(other) == kind).collect();
    for (other, _) in pick_two(&siblings, rng) {
        add(Way::Swapped, 0, Some(other.clone()));
    }
    if let [(other, _), ..] = pick_two(&neighbours, rng)[..] {
        add(Way::Swapped, 0, Some(other.clone()));
    }
    if let Some(next) = next_segment(path, files) {
        add(Way::Doubled, 0, Some(next));
    }
}

/// Up to two of `some`, each at most once.
fn pick_two<T: Clone>(some: &[T], rng: &mut Rng) -> Vec<T> {
    if some.is_empty() {
        return Vec::new();
    }
    let first = rng.below(some.len() as u64) as usize;
    let second = rng.below(some.len() as u64) as usize;
    if first == second { vec![some[first].clone()] } else { vec![some[first].clone(), some[second].clone()] }
}

/// The name under which a copy of this segment would follow the last one of its log.
fn next_segment(path: &Path, files: &[(PathBuf, u64)]) -> Option<PathBuf> {
    let number = |path: &Path| u64::from_str_radix(path.file_name()?.to_str()?.strip_suffix(".log")?, 16).ok();
    number(path)?;
    let of_this_log = files.iter().filter(|(other, _)| other.parent() == path.parent());
    let last = of_this_log.filter_map(|(other, _)| number(other)).max()?;
    Some(path.with_file_name(format!("{:016x}.log", last + 1)))
}

/// Where records end in a file that consists of records: journals (manifest, catalogue) and log segments.
fn record_ends(path: &Path, bytes: &[u8]) -> Vec<u64> {
    let is_log = path.extension().is_some_and(|extension| extension == "log");
    let is_journal = path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with("MANIFEST-") || name.starts_with("CATALOGUE-"));
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk::<4>()?) as usize);
    let (mut at, length_at) = if is_log { (PAGE, 4) } else { (16, 0) };
    let mut ends = Vec::new();
    if !is_log && !is_journal {
        return ends;
    }
    while let (Some(length), Some(check)) = (word(at + length_at), word(at)) {
        let padding = is_log && check == 0 && length == 0;
        let end = if padding { (at + 1).next_multiple_of(PAGE) } else { at + 16 + length };
        if end > bytes.len() {
            break;
        }
        if !padding {
            ends.push(end as u64);
        }
        at = end;
    }
    // A cut at the last end would be no cut.
    ends.pop();
    ends
}

/// The kind of this file, as a table shows it: `tree/*.sst`.
pub fn kind(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = match name.rsplit_once(['.', '-']) {
        Some((_, "sst")) => "*.sst".to_owned(),
        Some((_, "snap")) => "*.snap".to_owned(),
        Some((_, "log")) => "*.log".to_owned(),
        Some((stem, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => format!("{stem}-*"),
        _ if name.bytes().all(|byte| byte.is_ascii_digit()) => "*/".to_owned(),
        _ => name.to_owned(),
    };
    let parent = path.parent().and_then(Path::file_name).and_then(|parent| parent.to_str()).unwrap_or_default();
    match parent {
        "" | DIR => name,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => format!("{name}/"),
        parent => format!("{parent}/{name}"),
    }
}

/// The partition that a file or directory belongs to.
pub fn partition_of(path: &Path) -> Option<u32> {
    let below = path.strip_prefix(Path::new(DIR).join("partitions")).ok()?;
    below.components().next()?.as_os_str().to_str()?.parse().ok()
}
