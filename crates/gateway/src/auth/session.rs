//! One connection's view of its tenant.

use std::sync::Arc;

use super::account::{Account, Place};
use super::{Grant, Refusal, Standing};
use crate::store::Store;

/// What a connection may use: one tenant's data, one database at a time (S5). There is no way from here to another's.
pub(crate) struct Session<S: Store> {
    /// The database chosen.
    pub(crate) store: S,
    /// Its number.
    pub(crate) database: u8,
    place: Place,
}

impl<S: Store> Session<S> {
    /// A session in database 0.
    ///
    /// # Errors
    /// The tenant is suspended or has too many connections.
    pub(crate) fn open(grant: Grant<S>, account: &Arc<Account>) -> Result<Self, Refusal> {
        match grant.tenancy.standing() {
            Standing::Active => {}
            Standing::Suspended => return Err(Refusal::Suspended(grant.name)),
            Standing::Dropped => return Err(Refusal::WrongSecret),
        }
        let place = account.take_place().ok_or(Refusal::TooManyConnections)?;
        Ok(Self { store: grant.store, database: 0, place })
    }

    /// What the tenant's sessions share.
    pub(crate) fn account(&self) -> &Arc<Account> {
        self.place.account()
    }

    /// Chooses a database; `false` where there is no such number.
    pub(crate) fn select(&mut self, number: u8) -> bool {
        let Some(store) = self.store.database(number) else { return false };
        (self.store, self.database) = (store, number);
        true
    }
}
