//! Changing the catalogue, with errors that say what to do.

use weir_io::{Error, ErrorKind, Result};

use super::{Catalogue, CatalogueEdit};

/// Makes `edit` durable. If that fails, the edit has not happened, and a partition that it gave up is not written to
/// before that is certain.
///
/// # Errors
/// As [`Catalogue::commit`]; `NoSpace` says what to do.
pub async fn commit(catalogue: &mut Catalogue, edit: CatalogueEdit) -> Result<()> {
    catalogue.commit(edit).await.map_err(|error| {
        tracing::warn!(%error, "cannot change the catalogue");
        match error.kind() {
            ErrorKind::NoSpace => {
                let message =
                    format!("{error}. The disk is full: drop or empty a tenant, or free space on this file system");
                Error::new(ErrorKind::NoSpace, "change", "the catalogue", message)
            }
            _ => error,
        }
    })
}
