//! A whole file at a time: read, written, removed.

use std::path::Path;
use std::sync::Arc;

use weir_io::{AlignedBuf, ErrorKind, File, Fs, OpenOptions, Result, Tag};

/// The bytes of the file at `path`.
///
/// # Errors
/// I/O.
pub async fn read_file(fs: &Arc<dyn Fs>, path: &Path, tag: Tag) -> Result<AlignedBuf> {
    let file = fs.open(path, OpenOptions::read_buffered(), tag).await?;
    let length = file.len().await? as usize;
    file.read_at(0, AlignedBuf::with_len(length), tag).await
}

/// Creates `path` with `content` and makes that durable, but not the name.
pub(crate) async fn write_file(fs: &Arc<dyn Fs>, path: &Path, content: AlignedBuf, tag: Tag) -> Result<Arc<dyn File>> {
    let file = fs.open(path, OpenOptions::create_new_buffered(), tag).await?;
    file.write_at(0, content, tag).await?;
    file.sync(tag).await?;
    Ok(file)
}

/// Removes a file, unless it is gone already.
pub(crate) async fn remove_if_there(fs: &Arc<dyn Fs>, path: &Path, tag: Tag) -> Result<()> {
    match fs.remove(path, tag).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
