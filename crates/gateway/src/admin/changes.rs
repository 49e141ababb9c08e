//! Describes for the log what an operator has changed about a tenant. Of a secret it says only that it changed (S4).

use std::fmt::Display;

use weir_node::{OnLimit, TenantSettings};

use super::wire::DeltaMs;

/// Each setting that differs, as `NAME OLD -> NEW`, in one line. Empty if none differs.
pub(super) fn changes(old: &TenantSettings, new: &TenantSettings) -> String {
    let limited = |value: u64| if value == 0 { "unlimited".to_owned() } else { value.to_string() };
    let fields = |settings: &TenantSettings| {
        let limits = &settings.limits;
        [
            ("rcu", limited(limits.rcu)),
            ("wcu", limited(limits.wcu)),
            ("ru", limited(limits.ru)),
            ("spare", limits.spare.to_string()),
            ("burst_seconds", limits.burst_seconds.to_string()),
            ("on_limit", on_limit(limits.on_limit)),
            ("connections_max", limited(u64::from(settings.connections_max))),
            ("disk_bytes_max", limited(settings.disk_bytes_max)),
            ("memory_bytes_max", limited(settings.memory_bytes_max)),
            ("weight", settings.terms.weight.to_string()),
            ("delta_ms", DeltaMs::from(settings.terms.delay).to_string()),
            ("suspended", settings.suspended.to_string()),
        ]
    };
    let both = fields(old).into_iter().zip(fields(new));
    let mut changes: Vec<String> =
        both.filter(|(old, new)| old != new).map(|((name, old), (_, new))| change(name, old, new)).collect();
    if old.secret != new.secret {
        changes.push("secret changed".to_owned());
    }
    changes.join(", ")
}

fn change(name: &str, old: impl Display, new: impl Display) -> String {
    format!("{name} {old} -> {new}")
}

fn on_limit(on_limit: OnLimit) -> String {
    match on_limit {
        OnLimit::Delay { max_ms } => format!("delay up to {max_ms} ms"),
        OnLimit::Refuse => "refuse".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use weir_node::{Delay, ShareTerms, StoredSecret, UnitLimits};

    use super::*;

    #[test]
    fn every_setting_that_differs_is_named_and_no_secret_is_shown() {
        let old = TenantSettings { secret: Some(StoredSecret::new(*b"canary-old")), ..TenantSettings::default() };
        assert_eq!(changes(&old, &old), "");
        let limits = UnitLimits { rcu: 1000, wcu: 5, ru: 70, spare: true, burst_seconds: 3, on_limit: OnLimit::Refuse };
        let new = TenantSettings {
            secret: Some(StoredSecret::new(*b"canary-new")),
            limits,
            connections_max: 7,
            disk_bytes_max: 9,
            memory_bytes_max: 11,
            terms: ShareTerms { weight: 4, delay: Delay::Endless },
            suspended: true,
            users: old.users.clone(),
        };
        assert_eq!(
            changes(&old, &new),
            "rcu unlimited -> 1000, wcu unlimited -> 5, ru unlimited -> 70, spare false -> true, burst_seconds 0 -> 3, on_limit delay up to 1000 ms -> refuse, \
             connections_max unlimited -> 7, disk_bytes_max unlimited -> 9, memory_bytes_max unlimited -> 11, \
             weight 1 -> 4, delta_ms node -> never, suspended false -> true, secret changed"
        );
        let back = TenantSettings { secret: None, ..new.clone() };
        assert_eq!(changes(&new, &back), "secret changed");
    }
}
