//! A connection's view of its tenant.

use std::sync::Arc;

use super::Refusal;
use super::users::User;
use crate::store::Store;
use crate::tenant::account::{Account, ConnectionPermit};
use crate::tenant::tenancy::{Grant, Standing};

/// What a connection may use: the data of one tenant, one database at a time (S5). From here nothing leads to another
/// tenant's data.
pub(crate) struct Login<S: Store> {
    /// The tenant's data.
    pub(crate) store: S,
    /// The number of the chosen database.
    pub(crate) database: u8,
    /// The user of the tenant that the connection acts as.
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
