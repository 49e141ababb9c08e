//! What a tenant feels most, in words for an operator: its own limits, a stall, its share of the disk, the shared disk
//! itself, or nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use weir_io::Nanos;

use super::history::Tick;
use super::sample::Felt;
use crate::waits::{Cause, Waits};

/// How far an answer looks back, in nanoseconds.
pub const WINDOW: Nanos = 10 * SECOND;
const SECOND: Nanos = 1_000_000_000;
/// Waiting of less than this in a second, over all requests together, is not worth a word.
const NOTICED: Nanos = 10_000_000;

/// What a tenant's requests met lately, over all its partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// How long the window is, in nanoseconds; at least half a second.
    pub length: Nanos,
    /// How long requests waited, by cause, over all requests together.
    pub waited: Waits,
    /// Requests that were refused because of the tenant's units.
    pub refused: u64,
    /// The rate to which a policy slows its writes, in bytes per second; that of the slowest of its partitions. Where
    /// level 0 is long, the tree may let through less.
    pub write_rate: Option<u64>,
    /// Whether a partition of it has so many runs in level 0 that its writes are slowed.
    pub level_0_is_long: bool,
}

/// The [`WINDOW`] before `at`. `ticks` are the last ticks, the newest first. `None` where less than two ticks saw the
/// tenant awake.
pub fn window<'a>(ticks: impl Iterator<Item = &'a Arc<Tick>>, tenant: u32, at: Nanos) -> Option<Window> {
    let from = at.saturating_sub(WINDOW);
    let ticks: Vec<&Arc<Tick>> = ticks
        .skip_while(|tick| tick.sample.now > at)
        .take_while(|tick| tick.sample.now >= from)
        .filter(|tick| tick.sample.partitions.iter().any(|partition| partition.owner.tenant == tenant))
        .collect();
    let (last, first) = (ticks.first()?, ticks.last()?);
    let length = last.sample.now.saturating_sub(first.sample.now);
    if length < SECOND / 2 {
        return None;
    }
    let mut window = Window { length, ..Window::default() };
    let knobs = last.sample.partitions.iter().zip(&last.decision.knobs.partitions);
    for (partition, knobs) in knobs.filter(|(partition, _)| partition.owner.tenant == tenant) {
        window.write_rate = window.write_rate.into_iter().chain(knobs.write_rate).min();
        window.level_0_is_long |= partition.tree.l0_slow > 0 && partition.tree.l0_runs >= partition.tree.l0_slow;
        // A partition that woke during the window counts from then on.
        let before = ticks.iter().rev().find_map(|tick| {
            let mut partitions = tick.sample.partitions.iter();
            partitions.find(|other| other.owner == partition.owner).map(|other| other.felt)
        });
        let more = partition.felt.since(&before.unwrap_or(partition.felt));
        for cause in [Cause::Stall, Cause::Partition, Cause::Node] {
            window.waited[cause as usize] += more.waited[cause as usize];
        }
        // Units belong to the tenant, so each of its partitions has seen the same.
        for cause in [Cause::Quota, Cause::NodeQueue] {
            let waited = &mut window.waited[cause as usize];
            *waited = more.waited[cause as usize].max(*waited);
        }
        window.refused = more.refused.max(window.refused);
    }
    Some(window)
}

impl Felt {
    /// What was added since `earlier`. Sums that went back, because the partition was opened anew, count from zero.
    fn since(&self, earlier: &Felt) -> Felt {
        let more = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Felt {
            waited: std::array::from_fn(|cause| more(self.waited[cause], earlier.waited[cause])),
            refused: more(self.refused, earlier.refused),
        }
    }
}

/// Facts that are known about a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether its clients are refused.
    pub is_suspended: bool,
    /// Bytes that it holds on disk, and that it may hold; `None` where that is not limited, or not known for that time.
    pub disk: Option<(u64, u64)>,
    /// Connections that are open, and that may be; `None` likewise.
    pub connections: Option<(u64, u64)>,
    /// Connections refused because of that, since the server started.
    pub connections_refused: u64,
    /// Read, write and request units a second that it bought; 0 = not limited.
    pub units: [u64; 3],
    /// What its requests met.
    pub window: Option<Window>,
}

/// What the tenant feels most, as one sentence, and then a sentence for everything else that it feels.
pub fn felt(facts: &Facts) -> String {
    let mut felt = limits(facts);
    if let Some(window) = &facts.window {
        felt.extend(waits(window, facts.units));
    }
    let mut felt = felt.into_iter();
    let mut words = felt.next().unwrap_or_else(|| nothing(facts.window.as_ref()));
    for further in felt {
        let _ = write!(words, "\nAlso: {further}");
    }
    words.push('\n');
    words
}

fn nothing(window: Option<&Window>) -> String {
    match window {
        None => "Nothing is known: it was asleep at that time, or the time is no longer remembered.".to_owned(),
        Some(window) => format!(
            "Nothing: in {} s all its requests together waited {}.",
            window.length.div_ceil(SECOND),
            time(window.waited.iter().sum())
        ),
    }
}

/// Limits that refuse: they come before everything that only takes time.
fn limits(facts: &Facts) -> Vec<String> {
    let mut felt = Vec::new();
    if facts.is_suspended {
        felt.push("It is suspended: its clients are refused. `weir tenant resume` ends that.".to_owned());
    }
    if let Some((held, max)) = facts.disk.filter(|(held, max)| held >= max) {
        felt.push(format!(
            "Its disk limit: it holds {} of {}, so commands that store more are refused (-OOM); reading, deleting and \
             FLUSHALL still work.",
            megabytes(held),
            megabytes(max)
        ));
    }
    if let Some((open, max)) = facts.connections.filter(|(open, max)| open >= max) {
        felt.push(format!(
            "Its connection limit: {open} of {max} are open, so the next one is refused; {} have been refused since \
             the server started.",
            facts.connections_refused
        ));
    }
    if let Some(window) = facts.window.filter(|window| window.refused > 0) {
        felt.push(format!(
            "Its own quota: {} requests were refused in {} s because they exceeded {} (-THROTTLED).",
            window.refused,
            window.length.div_ceil(SECOND),
            units(facts.units)
        ));
    }
    felt
}

/// The waits, the longest first.
fn waits(window: &Window, bought: [u64; 3]) -> Vec<String> {
    let least = u128::from(NOTICED) * u128::from(window.length) / u128::from(SECOND);
    let is_slowed = window.write_rate.is_some() || window.level_0_is_long;
    let mut felt: Vec<(Nanos, String)> = [Cause::Quota, Cause::NodeQueue, Cause::Stall, Cause::Partition, Cause::Node]
        .into_iter()
        .map(|cause| (cause, window.waited[cause as usize]))
        .filter(|(cause, waited)| u128::from(*waited) >= least || (is_slowed && *cause == Cause::Stall))
        .map(|(cause, waited)| {
            let how_long =
                format!("in {} s its requests waited {} for it in total", window.length.div_ceil(SECOND), time(waited));
            let words = match (cause, window.write_rate) {
                (Cause::Quota, _) => format!("Its own quota of {}: {how_long}.", units(bought)),
                (Cause::NodeQueue, _) => {
                    format!(
                        "The node's queue of requests, because all tenants together use too many units: {how_long}."
                    )
                }
                (Cause::Stall, Some(rate)) if window.level_0_is_long => {
                    format!(
                        "Its writes are slowed to {} a second at most, because compactions of level 0 have fallen \
                         behind: {how_long}.",
                        megabytes(rate)
                    )
                }
                (Cause::Stall, Some(rate)) => {
                    format!(
                        "Its writes are slowed to {} a second, so that they do not stop: {how_long}.",
                        megabytes(rate)
                    )
                }
                (Cause::Stall, None) if window.level_0_is_long => {
                    format!("Its writes are slowed, because compactions of level 0 have fallen behind: {how_long}.")
                }
                (Cause::Stall, None) => {
                    format!("A stall, because of a flush, a compaction or the write memory: {how_long}.")
                }
                (Cause::Partition, _) => format!("Its share of the disk: {how_long}."),
                (Cause::Node, _) => format!("The disk, which all tenants share: {how_long}."),
            };
            (waited, words)
        })
        .collect();
    felt.sort_by_key(|(waited, _)| std::cmp::Reverse(*waited));
    felt.into_iter().map(|(_, words)| words).collect()
}

fn units(bought: [u64; 3]) -> String {
    let kinds = bought.into_iter().zip(["read", "write", "request"]).filter(|(units, _)| *units > 0);
    let kinds: Vec<String> = kinds.map(|(units, kind)| format!("{units} {kind}")).collect();
    match kinds.len() {
        0 => "units that are no longer limited".to_owned(),
        _ => format!("{} units a second", kinds.join(" and ")),
    }
}

fn megabytes(bytes: u64) -> String {
    match bytes {
        ..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

fn time(nanos: Nanos) -> String {
    match nanos {
        0 => "not at all".to_owned(),
        1..SECOND => format!("{:.1} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use weir_io::Owner;

    use super::super::knobs::{Knobs, NodeKnobs, PartitionKnobs};
    use super::super::meter::Load;
    use super::super::profile::Decision;
    use super::super::sample::{MemoryFacts, PartitionSample, Sample};
    use super::*;
    use crate::limits::Limits;

    fn ten_seconds(waited: Waits) -> Facts {
        let window = Window { length: WINDOW, waited, ..Window::default() };
        Facts { window: Some(window), units: [100, 50, 0], ..Facts::default() }
    }

    fn first(facts: &Facts) -> String {
        felt(facts).lines().next().expect("a sentence").to_owned()
    }

    #[test]
    fn the_first_sentence_names_what_is_felt_most() {
        let quiet = ten_seconds([0, 0, 0, 0, 5_000_000]);
        assert_eq!(first(&quiet), "Nothing: in 10 s all its requests together waited 5.0 ms.");
        let quota = ten_seconds([12_300_000_000, 0, 0, 2 * SECOND, 1]);
        assert_eq!(
            felt(&quota),
            "Its own quota of 100 read and 50 write units a second: in 10 s its requests waited 12.3 s for it in total.\n\
             Also: Its share of the disk: in 10 s its requests waited 2.0 s for it in total.\n"
        );
        let stall = ten_seconds([SECOND, 0, 3 * SECOND, 0, 0]);
        assert!(
            first(&stall).starts_with("A stall, because of a flush") && first(&stall).contains("3.0 s"),
            "{}",
            first(&stall)
        );
        let share = ten_seconds([0, 0, 0, SECOND, 0]);
        assert!(
            first(&share).starts_with("Its share of the disk: in 10 s its requests waited 1.0 s"),
            "{}",
            first(&share)
        );
        let disk = ten_seconds([0, 0, 0, SECOND, 2 * SECOND]);
        assert!(first(&disk).starts_with("The disk, which all tenants share"), "{}", first(&disk));
        let queue = ten_seconds([SECOND, 2 * SECOND, 0, 0, 0]);
        assert!(first(&queue).starts_with("The node's queue of requests"), "{}", first(&queue));
    }

    #[test]
    fn slowed_writes_are_named_however_little_they_waited() {
        let mut facts = ten_seconds([0, 0, 0, 0, 1]);
        let window = facts.window.as_mut().expect("there");
        window.write_rate = Some(1_200_000);
        assert!(first(&facts).starts_with("Its writes are slowed to 1.2 MB a second, so"), "{}", first(&facts));
        facts.window.as_mut().expect("there").level_0_is_long = true;
        assert!(first(&facts).starts_with("Its writes are slowed to 1.2 MB a second at most"), "{}", first(&facts));
        let window = facts.window.as_mut().expect("there");
        (window.write_rate, window.level_0_is_long) = (None, true);
        assert!(first(&facts).starts_with("Its writes are slowed, because compactions"), "{}", first(&facts));
    }

    #[test]
    fn what_refuses_comes_before_what_takes_time() {
        let mut facts = ten_seconds([0, 0, 60 * SECOND, 0, 0]);
        facts.window.as_mut().expect("there").refused = 312;
        assert_eq!(
            first(&facts),
            "Its own quota: 312 requests were refused in 10 s because they exceeded 100 read and 50 write units a second (-THROTTLED)."
        );
        facts.connections = Some((10, 10));
        facts.connections_refused = 37;
        assert_eq!(
            first(&facts),
            "Its connection limit: 10 of 10 are open, so the next one is refused; 37 have been refused since the server started."
        );
        facts.disk = Some((5_000_000, 5_000_000));
        assert!(first(&facts).starts_with("Its disk limit: it holds 5.0 MB of 5.0 MB"), "{}", first(&facts));
        facts.is_suspended = true;
        assert!(first(&facts).starts_with("It is suspended"), "{}", first(&facts));
        assert_eq!(felt(&facts).lines().count(), 5, "and everything else is said, too");
        let free = Facts { disk: Some((4, 5)), connections: Some((9, 10)), connections_refused: 5, ..Facts::default() };
        assert_eq!(felt(&free), "Nothing is known: it was asleep at that time, or the time is no longer remembered.\n");
    }

    fn tick(now: Nanos, partitions: &[(u32, Felt)]) -> Arc<Tick> {
        let sample = |&(partition, felt): &(u32, Felt)| PartitionSample {
            owner: Owner { tenant: 7, partition },
            felt,
            ..PartitionSample::default()
        };
        let partitions: Vec<PartitionSample> = partitions.iter().map(sample).collect();
        let node = NodeKnobs { limits: Limits::UNLIMITED, burst: 0 };
        let knobs = Knobs { node, floor: None, partitions: partitions.iter().map(PartitionKnobs::open).collect() };
        let decision = Decision { loads: vec![Load::default(); partitions.len()], knobs, violation: None };
        let sample = Sample { now, device: Limits::UNLIMITED, memory: MemoryFacts::default(), partitions };
        Arc::new(Tick { sample, decision })
    }

    #[test]
    fn a_window_is_what_was_added_in_it() {
        let felt = |quota, stall, refused| Felt { waited: [quota, quota / 10, stall, 0, 0], refused };
        let ticks: Vec<_> = (0..30_u64)
            .map(|second| {
                let both = [(1, felt(second * 10, second, second)), (2, felt(second * 10, 1000 + second, second))];
                // The second partition wakes in second 15.
                tick(second * SECOND, if second < 15 { &both[..1] } else { &both })
            })
            .collect();
        let at = |second: u64| window(ticks.iter().rev(), 7, second * SECOND);
        assert_eq!(at(14).map(|it| (it.length, it.waited, it.refused)), Some((WINDOW, [100, 10, 10, 0, 0], 10)));
        assert_eq!(
            at(20).map(|it| (it.waited, it.refused)),
            Some(([100, 10, 10 + 5, 0, 0], 10)),
            "units are the tenant's, once"
        );
        assert_eq!(at(3).map(|it| it.length), Some(3 * SECOND));
        assert_eq!((at(0), window(ticks.iter().rev(), 8, 20 * SECOND)), (None, None));
        // A partition that was opened anew counts from zero.
        let again = [tick(0, &[(1, felt(0, 500, 0))]), tick(SECOND, &[(1, felt(0, 20, 0))])];
        assert_eq!(window(again.iter().rev(), 7, SECOND).map(|it| it.waited), Some([0, 0, 20, 0, 0]));
    }
}
