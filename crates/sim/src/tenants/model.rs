//! What every tenant may show, after orders and writes that succeeded, failed, or might turn out to have happened.

use std::collections::BTreeMap;

/// The values that each key may have. A key that is not named has none.
type Keys = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

/// What a tenant holds.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    keys: Keys,
    /// This setting stands for all settings.
    pub connections_max: u32,
}

impl Contents {
    /// Notes that a write of `value` (`None` = a deletion) was acknowledged or refused; a refused write may still
    /// happen.
    fn note(&mut self, key: &[u8], value: Option<&[u8]>, acknowledged: bool) {
        let candidates = self.keys.entry(key.to_vec()).or_insert_with(|| vec![None]);
        if acknowledged {
            candidates.clear();
        }
        candidates.push(value.map(<[u8]>::to_vec));
    }

    /// Whether `key` may show `value`.
    pub fn allows(&self, key: &[u8], value: Option<&[u8]>) -> bool {
        match self.keys.get(key) {
            Some(candidates) => candidates.iter().any(|candidate| candidate.as_deref() == value),
            None => value.is_none(),
        }
    }

    /// A key that shows what it must not, if there is one.
    pub fn wrong(&self, found: &Contents) -> Option<Vec<u8>> {
        let shown = |key: &[u8]| found.keys.get(key).and_then(|values| values.first()?.as_deref());
        let mut keys = self.keys.keys().chain(found.keys.keys());
        keys.find(|key| !self.allows(key, shown(key))).cloned()
    }

    /// The contents as they were found: each key has one value.
    pub fn found(entries: Vec<(Vec<u8>, Vec<u8>)>, connections_max: u32) -> Self {
        Self { keys: entries.into_iter().map(|(key, value)| (key, vec![Some(value)])).collect(), connections_max }
    }

    /// The same contents with other settings.
    #[must_use]
    pub fn altered(self, connections_max: u32) -> Self {
        Self { connections_max, ..self }
    }

    /// The same settings, without any keys.
    pub fn emptied(&self) -> Self {
        Self { keys: Keys::new(), connections_max: self.connections_max }
    }
}

/// What the next process may find instead of what this one knows, because an order failed half-way.
#[derive(Clone, Debug)]
struct Maybe {
    contents: Option<Contents>,
    /// Whether it has the same partitions: then what is acknowledged from now on is in it, too. If it has others,
    /// nothing may be acknowledged before it is certain that the order did not happen.
    same_partitions: bool,
}

#[derive(Clone, Debug, Default)]
struct Tenant {
    contents: Option<Contents>,
    maybe: Vec<Maybe>,
}

/// What each tenant may show, by its name.
#[derive(Clone, Debug, Default)]
pub struct Model(BTreeMap<String, Tenant>);

impl Model {
    /// What the tenant holds, if there is one of that name.
    pub fn get(&self, name: &str) -> Option<&Contents> {
        self.0.get(name)?.contents.as_ref()
    }

    /// Notes that an order that changes the tenant into `after` has succeeded: no failed order can turn out to be done
    /// any more.
    pub fn done(&mut self, name: &str, after: Option<Contents>) {
        self.0.values_mut().for_each(|tenant| tenant.maybe.clear());
        self.0.insert(name.into(), Tenant { contents: after, maybe: Vec::new() });
    }

    /// Notes that the order has failed: this process knows that it has not happened, but the next one may find that it
    /// has.
    pub fn failed(&mut self, name: &str, after: Option<Contents>, same_partitions: bool) {
        self.0.entry(name.into()).or_default().maybe.push(Maybe { contents: after, same_partitions });
    }

    /// Notes that a write has ended.
    pub fn note(&mut self, name: &str, key: &[u8], value: Option<&[u8]>, acknowledged: bool) {
        let Some(tenant) = self.0.get_mut(name) else { return };
        if acknowledged {
            tenant.maybe.retain(|maybe| maybe.same_partitions);
        }
        let maybe = tenant.maybe.iter_mut().filter_map(|maybe| maybe.contents.as_mut());
        maybe.chain(&mut tenant.contents).for_each(|contents| contents.note(key, value, acknowledged));
    }

    /// The next process has found the tenants `found`, which is certain from now on.
    pub fn settle(&mut self, found: &BTreeMap<String, Contents>) -> Result<(), String> {
        for name in found.keys() {
            self.0.entry(name.clone()).or_default();
        }
        for (name, tenant) in &mut self.0 {
            let found = found.get(name);
            let fits = |expected: &Option<Contents>| match (expected, found) {
                (None, None) => true,
                (Some(expected), Some(found)) => {
                    expected.connections_max == found.connections_max && expected.wrong(found).is_none()
                }
                _ => false,
            };
            let possible: Vec<_> = tenant.maybe.iter().map(|maybe| &maybe.contents).chain([&tenant.contents]).collect();
            let Some(fitting) = possible.iter().rev().find(|expected| fits(expected)) else {
                let key = tenant.contents.as_ref().zip(found).and_then(|(expected, found)| expected.wrong(found));
                let key = key.map(|key| String::from_utf8_lossy(&key).into_owned());
                let (is, was) = (found.is_some(), tenant.contents.is_some());
                return Err(format!("tenant {name}: there {is}, should be {was}; wrong key {key:?}"));
            };
            // Candidates stay: a refused write may be flushed later.
            let fitting = Option::<Contents>::clone(fitting);
            (tenant.contents, tenant.maybe) = (fitting, Vec::new());
        }
        Ok(())
    }
}
