//! The preloaded data: made once, kept, and cloned for every run with hard links where files are never written again.

use std::fs;
use std::path::Path;

use weir_scenario::plan::Plan;

use super::Entry;
use crate::Result;
use crate::harness::kept::Kept;

/// Raise this when the preloaded data changes.
const VERSION: u32 = 3;

/// The data that is preloaded for `plan` and contestants of this kind, in `home`.
pub(super) fn of(contestant: &Entry, plan: &Plan, home: &Path) -> Kept {
    let args = &plan.args;
    let name = contestant.kind();
    Kept {
        dir: home.join(format!("image-{name}")),
        mark: home.join(format!("image-{name}.txt")),
        words: format!(
            "{VERSION} {} {:?} {} {} {} {}\n",
            args.partitions,
            plan.sizes(),
            args.preload_items,
            args.scale,
            args.seed,
            args.shape.debt
        ),
    }
}

/// Makes `to` a copy of `from`. Tables are immutable in both engines, so they are linked; everything else (logs,
/// manifests, locks) is copied.
pub(super) fn clone(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            clone(&source, &target)?;
        } else if source.extension().is_some_and(|extension| extension == "sst") {
            fs::hard_link(&source, &target)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_clone_shares_tables_and_nothing_else() {
        let home = std::env::temp_dir().join(format!("weir-image-{}", std::process::id()));
        let (from, to) = (home.join("from"), home.join("to"));
        fs::create_dir_all(from.join("0001")).expect("a directory");
        fs::write(from.join("0001/000007.sst"), "table").expect("written");
        fs::write(from.join("0001/MANIFEST-1"), "edits").expect("written");
        clone(&from, &to).expect("cloned");
        let inode = |path: &str| fs::metadata(home.join(path)).expect("is there").ino();
        assert_eq!(inode("from/0001/000007.sst"), inode("to/0001/000007.sst"));
        assert_ne!(inode("from/0001/MANIFEST-1"), inode("to/0001/MANIFEST-1"));
        assert_eq!(fs::read_to_string(to.join("0001/MANIFEST-1")).expect("is there"), "edits");
        fs::remove_dir_all(&home).expect("removed");
    }
}
