//! Finds the peer's library.

use std::env;
use std::path::{Path, PathBuf};

use crate::Result;

/// Names of the library: first the one inside `org.rocksdb:rocksdbjni`, then the one that distributions install.
const NAMES: [&str; 2] = ["librocksdbjni-linux64.so", "librocksdb.so"];

/// Directories where distributions keep libraries.
const SYSTEM: [&str; 4] = ["/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// Finds RocksDB: `named` (the command line), `WEIR_ROCKSDB_LIB`, `.tools/` here or above, `~/.cache/weir/`, the
/// system's.
pub fn rocksdb(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named.map(Path::to_path_buf).or_else(|| env::var_os("WEIR_ROCKSDB_LIB").map(PathBuf::from)) {
        return if path.is_file() { Ok(path) } else { Err(format!("{}: no such file", path.display()).into()) };
    }
    let here = env::current_dir().unwrap_or_default();
    let tools = here.ancestors().map(|dir| dir.join(".tools"));
    let cache = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/weir"));
    let dirs = tools.chain(cache).chain(SYSTEM.iter().map(PathBuf::from));
    find(dirs).ok_or_else(|| {
        "RocksDB's shared library was not found; run `cargo xtask peer rocksdb` to fetch a current one into .tools/, or name \
         one with --peer-lib FILE or WEIR_ROCKSDB_LIB"
            .into()
    })
}

fn find(dirs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    dirs.flat_map(|dir| NAMES.map(|name| dir.join(name)).into_iter().chain(versioned(&dir))).find(|path| path.is_file())
}

/// `librocksdb.so.7.8` and the like: distributions install the name without a version only for developers.
fn versioned(dir: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = names
        .filter(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("librocksdb.so."))
        })
        .collect();
    found.sort();
    found
}
