//! How samples and knobs name their owner in a recording.

use serde::{Deserialize, Serialize};
use weir_io::Owner;

/// The fields of an [`Owner`] in a recording.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Owner")]
pub(super) struct OwnerDef {
    tenant: u32,
    partition: u32,
}
