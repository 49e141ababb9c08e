//! A connection's view of its tenant.

use std::sync::Arc;

use super::Refusal;
use super::users::User;
use crate::store::Store;
use crate::tenant::account::{Account, ConnectionPermit};
use crate::tenant::tenancy::{Grant, Standing};

/// What a connection may use: one tenant's data, one database at a time (S5). There is no way from here to another's.
pub(crate) struct Login<S: Store> {
    /// The tenant's data.
    pub(crate) store: S,
    /// The number of the database chosen.
    pub(crate) database: u8,
    /// Who of the tenant's users it is.
    pub(crate) user: Arc<User>,
    permit: ConnectionPermit,
}

impl<S: Store> Login<S> {
    /// A login in `database`.
    ///
    /// # Errors
    /// The tenant is suspended or has too many connections.
    pub(crate) fn open(
        grant: Grant<S>,
        account: &Arc<Account>,
        user: Arc<User>,
        database: u8,
    ) -> Result<Self, Refusal> {
        match grant.tenancy.standing() {
            Standing::Active => {}
            Standing::Suspended => return Err(Refusal::Suspended(grant.name)),
            Standing::Dropped => return Err(Refusal::WrongSecret),
        }
        let permit = account.admit().ok_or(Refusal::TooManyConnections)?;
        Ok(Self { store: grant.store, database, user, permit })
    }

    /// What the tenant's sessions share.
    pub(crate) fn account(&self) -> &Arc<Account> {
        self.permit.account()
    }
}
