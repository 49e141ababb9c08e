//! What tenants must hold after what was asked for and answered, and how much of it the loss of a machine may cost.
#![allow(missing_docs, reason = "test support")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_log::SyncMode;
use weir_model::Batch;
use weir_node::{Tenant, TenantName, TenantSettings};

/// A write goes to the first key and to one of the others.
const KEYS: usize = 8;
/// Length of most values: a memtable is full after a few writes.
const PADDING: usize = 800;

/// The value that each key has.
type Values = [Option<u64>; KEYS];

fn key(number: usize) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

fn other_key(value: u64) -> usize {
    1 + value as usize % (KEYS - 1)
}

/// The batch that is sent to a partition to write `value`.
pub fn batch(value: u64) -> Batch {
    let (mut batch, mut padded) = (Batch::new(), value.to_le_bytes().to_vec());
    batch.put(&key(0), &padded);
    padded.resize(PADDING, 7);
    batch.put(&key(other_key(value)), &padded);
    batch
}

/// The writes to a partition since it was empty.
#[derive(Clone, Debug, Default)]
struct Part {
    /// The values that were written, in their order.
    written: Vec<u64>,
    /// How many of them outlive the machine.
    durable: usize,
}

impl Part {
    fn after(&self, count: usize) -> Values {
        let mut values = Values::default();
        for &value in &self.written[..count] {
            values[0] = Some(value);
            values[other_key(value)] = Some(value);
        }
        values
    }
}

/// The writes to a tenant.
#[derive(Clone, Debug)]
pub struct Contents {
    parts: Vec<Part>,
    pub settings: TenantSettings,
}

impl Contents {
    pub fn new(partitions: u16) -> Self {
        Self { parts: vec![Part::default(); partitions.into()], settings: TenantSettings::default() }
    }

    pub fn partitions(&self) -> usize {
        self.parts.len()
    }

    #[must_use]
    pub fn written(mut self, part: usize, value: u64) -> Self {
        self.parts[part].written.push(value);
        self
    }

    #[must_use]
    pub fn emptied(mut self) -> Self {
        self.parts.fill(Part::default());
        self
    }

    #[must_use]
    pub fn altered(mut self, change: impl FnOnce(&mut TenantSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Everything in it is in tables.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.parts.iter_mut().for_each(|part| part.durable = part.written.len());
        self
    }

    /// Whether `found` is all of it.
    pub fn is(&self, found: &Found) -> bool {
        self.clone().durable().may_be_left_as(found)
    }

    /// Whether the loss of a machine may leave `found` of it: in each partition everything up to some write, with
    /// nothing durable missing.
    pub fn may_be_left_as(&self, found: &Found) -> bool {
        let is_left = |(part, values): (&Part, &Values)| {
            (part.durable..=part.written.len()).any(|count| part.after(count) == *values)
        };
        self.settings == found.settings
            && self.parts.len() == found.parts.len()
            && self.parts.iter().zip(&found.parts).all(is_left)
    }
}

/// What a tenant holds.
#[derive(Debug)]
pub struct Found {
    parts: Vec<Values>,
    settings: TenantSettings,
}

impl Found {
    pub async fn of(tenant: &Tenant) -> Self {
        let mut parts = Vec::new();
        for slot in tenant.partitions() {
            let partition = slot.partition().await.expect("it wakes");
            let mut values = Values::default();
            for (number, value) in values.iter_mut().enumerate() {
                let record = partition.get(&key(number)).await.expect("a read");
                *value = record.map(|record| {
                    u64::from_le_bytes(record.value().expect("a string")[..8].try_into().expect("eight bytes"))
                });
            }
            parts.push(values);
        }
        Self { parts, settings: (*tenant.settings()).clone() }
    }
}

/// The expected contents of all tenants and backups.
#[derive(Clone, Default)]
pub struct Expected {
    /// Contents that were answered for.
    tenants: BTreeMap<TenantName, Contents>,
    /// Contents that were asked for, and not answered yet. `None` = there is no such tenant.
    pending: Option<(TenantName, Option<Contents>)>,
    /// Finished backups, and what is in them.
    pub backups: Vec<(PathBuf, Contents)>,
    /// The backup that is being made.
    pub backing_up: Option<(PathBuf, Contents)>,
}

impl Expected {
    pub fn tenant(&self, name: &TenantName) -> Option<&Contents> {
        self.tenants.get(name)
    }

    /// The tenant is asked to become like this.
    pub fn ask(&mut self, name: &TenantName, after: Option<Contents>) {
        self.pending = Some((name.clone(), after));
    }

    /// What was asked for has been answered.
    pub fn answer(&mut self, sync: SyncMode) {
        let (name, after) = self.pending.take().expect("it was asked for");
        match after {
            None => drop(self.tenants.remove(&name)),
            Some(contents) if sync == SyncMode::Always => drop(self.tenants.insert(name, contents.durable())),
            Some(contents) => drop(self.tenants.insert(name, contents)),
        }
    }

    /// Everything that the tenant was told so far is in tables.
    pub fn is_durable(&mut self, name: &TenantName) {
        self.tenants.entry(name.clone()).and_modify(|contents| *contents = contents.clone().durable());
    }

    /// Checks that the loss of a machine may leave `found` of the tenant.
    pub fn check(&self, name: &TenantName, found: Option<&Found>) {
        let may_be = |contents: Option<&Contents>| match (contents, found) {
            (None, None) => true,
            (Some(contents), Some(found)) => contents.may_be_left_as(found),
            _ => false,
        };
        let (settled, pending) = (self.tenants.get(name), self.pending.as_ref().filter(|(pending, _)| pending == name));
        let is_fine = may_be(settled) || pending.is_some_and(|(_, after)| may_be(after.as_ref()));
        assert!(is_fine, "{name}: {found:?}, not {settled:?} or {pending:?}");
    }
}
