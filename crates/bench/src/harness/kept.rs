//! Data on the disk that later runs use again: a directory, and a mark beside it that says what is in there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

/// A directory of data and its mark.
pub struct Kept {
    /// The data.
    pub dir: PathBuf,
    /// The file of the mark. It is there only while the data is whole.
    pub mark: PathBuf,
    /// The text of the mark, which decides whether the data may be used again.
    pub words: String,
}

impl Kept {
    /// Whether the data that is wanted is there, and whole.
    pub fn is_there(&self) -> bool {
        fs::read_to_string(&self.mark).is_ok_and(|words| words == self.words)
    }

    /// Removes the mark and what is there, to make room for new data.
    ///
    /// # Errors
    /// The disk fails.
    pub fn begin(&self) -> Result<()> {
        remove(&self.mark)?;
        fresh(&self.dir)
    }

    /// Notes that the data is whole.
    ///
    /// # Errors
    /// The disk fails.
    pub fn end(&self) -> Result<()> {
        Ok(fs::write(&self.mark, &self.words)?)
    }

    /// Removes the data and its mark.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(&self) -> Result<()> {
        remove(&self.mark)?;
        remove(&self.dir)
    }
}

/// Makes `dir` an empty directory.
///
/// # Errors
/// The disk fails.
pub fn fresh(dir: &Path) -> Result<()> {
    remove(dir)?;
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()).into())
}

/// Removes a file or a directory, if it is there.
///
/// # Errors
/// The disk fails.
pub fn remove(path: &Path) -> Result<()> {
    let outcome = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", path.display()).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_used_again_only_if_they_are_whole_and_what_is_wanted() {
        let home = std::env::temp_dir().join(format!("weir-kept-{}", std::process::id()));
        let kept = |words: &str| Kept { dir: home.join("data"), mark: home.join("mark"), words: words.into() };
        let wanted = kept("ten items\n");
        wanted.begin().expect("begun");
        fs::write(wanted.dir.join("item"), "1").expect("written");
        assert!(!wanted.is_there(), "it is not known to be whole");
        wanted.end().expect("marked");
        assert!(wanted.is_there());
        assert!(!kept("eleven items\n").is_there());
        wanted.begin().expect("begun again");
        assert!(!wanted.is_there() && !wanted.dir.join("item").exists());
        wanted.remove().expect("removed");
        wanted.remove().expect("is gone already");
        fs::remove_dir(&home).expect("nothing is left");
    }
}
