//! A row for each way to share.

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
