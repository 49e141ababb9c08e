//! A row for each way to share.

use super::cached::{Cached, Kept, SHARE, STEADY_TENANTS, TENANTS};
use super::cascade::{Cascade, Cascaded};
use super::flush::{Flush, Slotted};
use super::mix::{Kind, Mix, Mixed};
use super::world::MB;
use super::{Buffer, Class, Shared};

/// What is tried, and the head of the table.
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

/// What came out.
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
    let kinds = ["readers", "writers", "changers", "bursty"].map(|kind| format!("{kind:>15}")).join(" ");
    format!(
        "64 tenants: 24 read, 16 write, 8 read and write, 8 write 7/8 of their share at once, two at a time, 8 write all they \
         can; scale {}\n\
         The worst tenant's P99.9 and its longest wait, in ms, of all but the last 8, and by kind; rates in MB/s at scale 1\n\n\
         {:<20} {:>6} {:>8} {:>15} {kinds}  {:>8} {:>8} {:>8}",
        args.trial.scale, "shares", "kept %", "reserved", "worst", "read", "written", "both",
    )
}

pub(super) fn mix_row(mixed: &Mixed) -> String {
    let both = |(p999, longest): (f64, f64)| format!("{:>15}", format!("{p999:.0} / {longest:.0}"));
    let of = |kind| both(mixed.of(kind).map_or((0.0, 0.0), |of| (of.p999_ms, of.longest_ms)));
    let kinds = [Kind::Reader, Kind::Writer, Kind::Changer, Kind::Bursty].map(of).join(" ");
    format!(
        "{:<20} {:>6.1} {:>8} {} {kinds}  {:>8.0} {:>8.0} {:>8.0}",
        mixed.mode,
        mixed.kept_percent,
        mixed.reserved_slots,
        both(mixed.worst_ms()),
        mixed.read_per_sec / 1e6,
        mixed.written_per_sec / 1e6,
        mixed.bytes_per_sec() / 1e6,
    )
}

/// The same for the block cache.
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

/// The same for the block cache.
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
