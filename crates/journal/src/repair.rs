//! Repairing the anchor of a journal off line: a `CURRENT` that is missing or damaged, where the file that it named is
//! still there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weir_io::{ErrorKind, Fs, Result, Tag};

use crate::codec::{Entry, contents, file_name, file_number};
use crate::files::read_file;
use crate::journal::{Journal, Recovered};

/// The state of a journal's anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// `CURRENT` names a file that can be read.
    Sound,
    /// `CURRENT` does not name such a file.
    Broken {
        /// What is wrong, with the file.
        why: String,
        /// The newest journal that can be read and whose files are all there, if any.
        newest: Option<u64>,
    },
}

/// Looks at the anchor of the journal in `dir`, which nobody may have open. `is_whole` is given a journal and the
/// lengths of all files by name, and says whether the files that the journal names are there. Changes nothing.
///
/// # Errors
/// I/O: nothing is known about the files then.
pub async fn examine<E: Entry>(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    tag: Tag,
    is_whole: impl Fn(Recovered<E>, &BTreeMap<&str, u64>) -> bool,
) -> Result<Anchor> {
    let why = match Journal::<E>::recover(fs, dir, tag).await {
        Ok(Some(_)) => return Ok(Anchor::Sound),
        Ok(None) => format!("{} is missing", dir.join("CURRENT").display()),
        Err(error) if error.kind() == ErrorKind::Corruption => error.to_string(),
        Err(error) => return Err(error),
    };
    let names = match fs.list(dir, tag).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Anchor::Broken { why, newest: None }),
        names => names?,
    };
    let lengths: BTreeMap<&str, u64> = names.iter().map(|entry| (entry.name.as_str(), entry.len)).collect();
    let mut numbers: Vec<u64> = names.iter().filter_map(|entry| file_number::<E>(&entry.name)).collect();
    numbers.sort_unstable();
    for number in numbers.into_iter().rev() {
        // A file that cannot be read may be the one to believe. If its content is damaged, an older one may be.
        let bytes = read_file(fs, &dir.join(file_name::<E>(number)), tag).await?;
        let Ok(contents) = contents(&bytes) else { continue };
        if is_whole(Recovered::new(number, contents), &lengths) {
            return Ok(Anchor::Broken { why, newest: Some(number) });
        }
    }
    Ok(Anchor::Broken { why, newest: None })
}
