//! A row for each way to share.

use super::cached::{Cached, Kept, SHARE, STEADY_TENANTS, TENANTS};
use super::flush::{Flush, Slotted};
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
        args.scale,
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
        "{} flush slots, 14 tenants with memtables of 63 MB: 12 write 1 MB/s, 1 writes 4.2 MB/s to each of 3 partitions, 1 writes \
         64 MB at once as those flush; scale {}\n\
         The longest wait of a flush for a slot, in ms; rates in MB/s at scale 1\n\n\
         {:<20} {:>6} {:>8} {:>8}  {:>9} {:>9} {:>9}  {:>9}",
        args.slots, args.scale, "shares", "delta", "reserved", "flush", "ramping", "greedy", "steady", "written",
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
        args.scale,
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
