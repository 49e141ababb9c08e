//! What an operator specifies about a tenant.

use std::sync::Arc;

use weir_admission::UnitLimits;
use weir_admission::policy::share::ShareTerms;
use weir_model::TenantName;
use weir_model::engine::EngineKind;

use super::secret::StoredSecret;
use super::users::StoredUser;
use crate::log_kind::LogKind;

/// Partitions of a tenant, at most.
pub const PARTITIONS_MAX: u16 = 256;

/// A tenant to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSpec {
    /// Its name, which no other tenant of the node may have.
    pub name: TenantName,
    /// Partitions that its keys are spread over, 1 to [`PARTITIONS_MAX`]. They cannot be changed later.
    pub partitions: u16,
    /// The engine in which its partitions keep their rows. It cannot be changed later either.
    pub engine: EngineKind,
    /// Where they write their logs. It cannot be changed later either.
    pub log: LogKind,
    /// Everything that can be changed later.
    pub settings: TenantSettings,
}

impl TenantSpec {
    /// A tenant with one partition, the default engine, a log of its own and no limits.
    pub fn new(name: TenantName) -> Self {
        let (engine, log) = (EngineKind::default(), LogKind::default());
        Self { name, partitions: 1, engine, log, settings: TenantSettings::default() }
    }
}

/// The settings that can be altered while a tenant is served. All of them are in the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantSettings {
    /// What its clients must show to be let in; `None` = nothing.
    pub secret: Option<StoredSecret>,
    /// Capacity units.
    pub limits: UnitLimits,
    /// Connections at most; 0 = as many as the node allows.
    pub connections_max: u32,
    /// Living bytes on disk at most; 0 = unlimited. Dead bytes may take half as much again for a while.
    pub disk_bytes_max: u64,
    /// Bytes of memory that its rows may take if its engine keeps them in memory; 0 = unlimited.
    pub memory_bytes_max: u64,
    /// Its share of what tenants share within a delay, and how long it may have to wait for that share.
    pub terms: ShareTerms,
    /// Its clients are refused; its data stays.
    pub suspended: bool,
    /// Its users, except the tenant itself as a user, in the order of their names.
    pub users: Arc<[StoredUser]>,
}
