//! Repair of `FORMAT`: writes it anew, if the catalogue shows that the directory is of this version.

use std::path::Path;
use std::sync::Arc;

use weir_io::{ErrorKind, Fs, Result};

use super::aside::Aside;
use super::{Finding, Remedy};
use crate::format::Format;

/// What is wrong with `FORMAT`. `is_ours`: a catalogue of this version was found.
pub async fn find(fs: &Arc<dyn Fs>, dir: &Path, is_ours: bool) -> Result<Option<Finding>> {
    let Some(refusal) = Format::read(fs, dir).await?.refusal(dir) else { return Ok(None) };
    if !is_ours && refusal.kind() == ErrorKind::Invalid {
        // Another version's, most likely: nothing here is ours to repair.
        return Err(refusal);
    }
    let advice = match is_ours {
        true => "write it anew: the catalogue is of this version",
        false => "without a catalogue, the version of the directory cannot be told: put the catalogue back first",
    };
    Ok(Some(Finding {
        problem: refusal.to_string(),
        advice: advice.into(),
        remedy: is_ours.then_some(Remedy::Format),
        loses: false,
    }))
}

/// Writes `FORMAT`.
pub async fn apply(fs: &Arc<dyn Fs>, dir: &Path, aside: &Aside) -> Result<()> {
    aside.keep(fs, &dir.join("FORMAT")).await?;
    Format::write(fs, dir).await
}
