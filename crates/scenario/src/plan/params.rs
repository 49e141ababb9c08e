//! The parameters of a plan, as JSON has them.

use serde_json::{Map, Value, json};

use super::Plan;
use crate::mix::{Kind, Mix, Pace};
use crate::pattern::SECOND;
use crate::visits::Visits;

impl Plan {
    /// Every parameter by its name, and what followed from them; `more` is an object with further entries.
    pub fn params(&self, more: Value) -> Map<String, Value> {
        let told = self.given.is_none().then_some(self.args.bosr);
        let sold = self.mix().is_none().then(|| self.bosr());
        let ratio = json!({ "bosr": sold, "bosr_told": told, "compactions": self.compactions() });
        let (mix, visits) = (self.mix().map(|mix| of_mix(&mix)), self.visits.map(of_visits));
        let all = [serde_json::to_value(&self.args).ok(), Some(ratio), mix, visits, Some(more)];
        all.into_iter()
            .flatten()
            .filter_map(|value| if let Value::Object(map) = value { Some(map) } else { None })
            .flatten()
            .collect()
    }
}

/// The parameters of `mix`.
fn of_mix(mix: &Mix) -> Value {
    let (clients, own_time_us, per_sec) = match mix.pace {
        Pace::Closed { clients, own_time } => (Some(clients), Some(own_time / 1000), None),
        Pace::Open(per_sec) => (None, None, Some(per_sec)),
    };
    let share = |kind| f64::from(mix.shares.of(kind)) / 100.0;
    json!({
        "workload": mix.workload,
        "items": mix.popularity.name(),
        "clients": clients,
        "own_time_us": own_time_us,
        "operations_per_sec": per_sec,
        "inserts": share(Kind::Insert),
        "gets": share(Kind::Get),
        "scans": share(Kind::Scan),
        "updates": share(Kind::Update),
        "read_modify_writes": share(Kind::Modify),
        "entries_max": mix.entries_max,
        "warm_up_seconds": mix.warm_up,
    })
}

/// The parameters of `visits`.
fn of_visits(visits: Visits) -> Value {
    json!({ "at_once": visits.at_once, "asleep_after_seconds": visits.asleep_after / SECOND })
}
