//! A row of the table for each way to share.

use super::cached::{Cached, Kept, SHARE, STEADY_TENANTS, TENANTS};
use super::cascade::{Cascade, Cascaded};
use super::flush::{Flush, Slotted};
use super::mix::{Kind, Mix, Mixed};
use super::rmw::{Composed, Rmw};
use super::world::MB;
use super::{Buffer, Class, Shared};

/// What is tried, and the column titles of the table.
pub fn heading(args: &Buffer) -> String {
    format!(
        "Write memory of 2048 MB, 16 tenants with a share of 128 MB: {} write 50 MB/s, 2 write all they can, {} ask for their share \
         at once, every {} s; scale {}\nWaits of tenants within their share, in ms; rates in MB/s at scale 1\n\n\
         {:<20} {:>6} {:>7} {:>9} {:>7}  {:>9} {:>9} {:>9} {:>6}  {:>9}",
        16 - 2 - args.ramps,
        args.ramps,
        args.every,
        args.trial.scale,
        "shares",
        "delta",
        "kept %",
        "reserve %",
        "refill",
        "ramping",
        "steady",
        "greedy",
        "late",
        "written",
    )
}

/// The row of one way to share.
pub fn row(shared: &Shared) -> String {
    let delta = shared.delta_ms.map_or_else(|| "-".to_owned(), |delta| format!("{delta:.0}"));
    let waited = |class| shared.longest_ms(class);
    let late: u64 = shared.tenants.iter().map(|tenant| tenant.late).sum();
    format!(
        "{:<20} {:>6} {:>7.1} {:>9.1} {:>7.0}  {:>9.1} {:>9.1} {:>9.1} {:>6}  {:>9.1}{}",
        shared.mode,
        delta,
        shared.kept_percent,
        shared.reserve_percent,
        shared.refill / 1e6,
        waited(Class::Ramping),
        waited(Class::Steady),
        waited(Class::Greedy),
        late,
        shared.bytes_per_sec / 1e6,
        if shared.is_lawful { "" } else { "  (not what the law says)" },
    )
}

pub(super) fn slots_heading(args: &Flush) -> String {
    format!(
        "{} flush slots, 16 tenants with memtables of 63 MB: 12 write 1 MB/s, 3 that can wait write 4.2 MB/s, 1 writes 64 MB at \
         once as those flush; scale {}\n\
         The longest wait of a flush for a slot, in ms; rates in MB/s at scale 1\n\n\
         {:<20} {:>6} {:>8} {:>8}  {:>9} {:>9} {:>9}  {:>9}",
        args.slots, args.trial.scale, "shares", "delta", "reserved", "flush", "ramping", "greedy", "steady", "written",
    )
}

pub(super) fn slots_row(slotted: &Slotted) -> String {
    let shown = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
    let [ramping, greedy, steady] =
        [Class::Ramping, Class::Greedy, Class::Steady].map(|class| slotted.longest_ms(class));
    format!(
        "{:<20} {:>6} {:>8} {:>8}  {:>9.1} {:>9.1} {:>9.1}  {:>9.1}",
        slotted.mode,
        shown(slotted.delta_ms),
        slotted.reserved,
        shown(slotted.flush_ms),
        ramping,
        greedy,
        steady,
        slotted.bytes_per_sec / 1e6,
    )
}

/// Kinds of tenants of a mix to which something is promised.
const PROMPT: [Kind; 5] = [Kind::Reader, Kind::Returner, Kind::Writer, Kind::Changer, Kind::Bursty];

pub(super) fn cascade_heading(args: &Cascade) -> String {
    format!(
        "{} flush slots, a shared log of 1900 MB, 16 tenants with two memtables of 64 MB: 15 write 1 MB/s and can wait, 1 \
         writes 30 MB/s; scale {}\n\
         The worst latency of a write, and in the median second, and the longest wait of a flush for a slot, in ms; bytes at \
         scale 1\n\n\
         {:<20} {:>8} {:>8} {:>7}  {:>9} {:>9} {:>9}  {:>9} {:>9}  {:>9}",
        args.slots,
        args.trial.scale,
        "shares",
        "reserved",
        "cascades",
        "log MB",
        "fast",
        "usually",
        "slow",
        "its flush",
        "theirs",
        "written",
    )
}

pub(super) fn cascade_row(cascaded: &Cascaded) -> String {
    let [fast, slow] = cascaded.flush_waited_ms;
    format!(
        "{:<20} {:>8} {:>8} {:>7}  {:>9.1} {:>9.1} {:>9.1}  {:>9.1} {:>9.1}  {:>9.1}",
        cascaded.mode,
        cascaded.reserved,
        cascaded.cascades,
        cascaded.log_bytes_max / MB,
        cascaded.fast_worst_ms(),
        cascaded.fast_usual_ms(),
        cascaded.slow_worst_ms(),
        fast,
        slow,
        cascaded.bytes_per_sec / 1e6,
    )
}

pub(super) fn mix_heading(args: &Mix) -> String {
    let kinds = ["readers", "returners", "writers", "changers", "bursty"].map(|kind| format!("{kind:>13}")).join(" ");
    format!(
        "64 tenants: 12 read steadily, 8 rest and read their share of the cache at once, 8 write, 6 read and write, 6 rest and write \
         7/8 of their share of the memory at once (both two at a time); 16 read and 8 write all they can; scale {}\n\
         The worst tenant's P99.9 and its longest wait, in ms, of all but the last 24, and by kind; rates in MB/s at scale 1\n\n\
         {:<16} {:>8} {:>7} {:>5} {:>13} {kinds}  {:>7} {:>7} {:>7} {:>6}",
        args.trial.scale, "shares", "memory %", "cache %", "slots", "worst", "read", "written", "both", "hits %",
    )
}

pub(super) fn mix_row(mixed: &Mixed) -> String {
    let both = |(p999, longest): (f64, f64)| format!("{:>13}", format!("{p999:.0} / {longest:.0}"));
    let of = |kind| both(mixed.of(kind).map_or((0.0, 0.0), |of| (of.p999_ms, of.longest_ms)));
    format!(
        "{:<16} {:>8.1} {:>7.1} {:>5} {} {}  {:>7.0} {:>7.0} {:>7.0} {:>6.1}{}",
        mixed.pair,
        mixed.kept_percent[0],
        mixed.kept_percent[1],
        mixed.reserved_slots,
        both(mixed.worst_ms()),
        PROMPT.map(of).join(" "),
        mixed.read_per_sec / 1e6,
        mixed.written_per_sec / 1e6,
        mixed.bytes_per_sec() / 1e6,
        mixed.of(Kind::Scanner).map_or(0.0, |of| of.hits[0]),
        if mixed.broken.is_empty() { "" } else { "  (cannot be promised)" },
    )
}

/// What is tried with the block cache, and the column titles.
pub fn cache_heading(args: &Cached) -> String {
    format!(
        "Block cache of {} MB, {TENANTS} tenants with a share of {} MB, device of {} MB/s: {STEADY_TENANTS} read 50 MB/s, 2 read \
         1400 MB/s, 10 rest; {} of these read all they had at once, every {} s; scale {}\n\
         Until they have it again, in ms; rates in MB/s at scale 1\n\n\
         {:<20} {:>6} {:>9} {:>7} {:>7}  {:>9} {:>6} {:>6} {:>6}  {:>9} {:>9}",
        u64::from(TENANTS) * SHARE / MB,
        SHARE / MB,
        args.device,
        args.ramps,
        args.every,
        args.trial.scale,
        "shares",
        "delta",
        "reserve %",
        "kept %",
        "refill",
        "longest",
        "late",
        "had %",
        "has %",
        "steady",
        "read",
    )
}

/// The row of one way to share the block cache.
pub fn cache_row(kept: &Kept) -> String {
    let delta = kept.delta_ms.map_or_else(|| "-".to_owned(), |delta| format!("{delta:.0}"));
    let least = |of: fn(&super::cached::Regained) -> f64| kept.regained.iter().map(of).fold(f64::INFINITY, f64::min);
    format!(
        "{:<20} {:>6} {:>9.1} {:>7.1} {:>7.0}  {:>9.1} {:>6} {:>6.1} {:>6.1}  {:>9.1} {:>9.1}{}{}",
        kept.mode,
        delta,
        kept.reserve_percent,
        kept.kept_percent,
        kept.refill / 1e6,
        kept.longest_ms(),
        kept.late(),
        least(|regained| regained.had_percent),
        least(|regained| regained.has_percent),
        kept.steady_slowest_ms,
        kept.bytes_per_sec / 1e6,
        if kept.broken.is_some() { "  (cannot be promised)" } else { "" },
        if kept.is_lawful { "" } else { "  (not what the law says)" },
    )
}

/// What is tried with tenants that read and write, and the column titles.
pub fn rmw_heading(args: &Rmw) -> String {
    format!(
        "Block cache and write memory of 16 tenants with shares of 320 and 128 MB, device of {} MB/s for reads: 6 change rows, \
         25 MB/s, 4 read and 2 write all they can, 4 rest; one of these changes all it has, every {} s, {}; scale {}\n\
         Its longest waits, in ms; rates in MB/s at scale 1\n\n\
         {:<10} {:>6} {:>8} {:>7} {:>7} {:>7}  {:>6} {:>7} {:>7} {:>7} {:>7} {:>5}  {:>7} {:>7}",
        args.device,
        args.every,
        if args.together { "a row is read and written together" } else { "a row is read and then written" },
        args.trial.scale,
        "shares",
        "delta",
        "memory %",
        "cache %",
        "refill",
        "refill",
        "had %",
        "read",
        "memory",
        "P99",
        "longest",
        "late",
        "steady",
        "bytes/s",
    )
}

/// The row of one pair of delays.
pub fn rmw_row(composed: &Composed) -> String {
    let delta = composed.delta_ms.map_or_else(|| "-".to_owned(), |delta| format!("{delta:.0}"));
    let least_had = composed.ramps.iter().map(|ramp| ramp.had_percent).fold(f64::INFINITY, f64::min);
    format!(
        "{:<10} {:>6} {:>8.1} {:>7.1} {:>7.0} {:>7.0}  {:>6.1} {:>7.0} {:>7.0} {:>7.0} {:>7.0} {:>5}  {:>7.0} {:>7.0}{}",
        composed.pair,
        delta,
        composed.memory_kept_percent,
        composed.cache_kept_percent,
        composed.memory_refill / 1e6,
        composed.cache_refill / 1e6,
        least_had,
        composed.most(|ramp| ramp.read_ms),
        composed.most(|ramp| ramp.memory_ms),
        composed.most(|ramp| ramp.p99_ms),
        composed.most(|ramp| ramp.longest_ms),
        composed.late(),
        composed.steady_ms,
        composed.bytes_per_sec / 1e6,
        if composed.broken.is_empty() { "" } else { "  (cannot be promised)" },
    )
}
