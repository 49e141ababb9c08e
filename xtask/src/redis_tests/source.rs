//! Fetches Redis' source with its tests, as Debian has it, into `.tools/`.
//!
//! apt runs with settings of our own: the machine's list of sources stays as it is.

use std::path::{Path, PathBuf};

use crate::peer::quietly;

/// The version whose tests are run: the one that our server says it is.
const VERSION: &str = "7.0.15";
const ARCHIVE: &str = "redis_7.0.15.orig.tar.gz";
/// SHA-256 of the archive: the same for every revision of the package.
const DIGEST: &str = "4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982";

const SOURCES: &str = "\
Types: deb-src
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb-src
URIs: http://deb.debian.org/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
";

/// The directory of the source; fetches the source if it is not there.
pub fn fetch(root: &Path) -> Result<PathBuf, String> {
    let tools = root.join(".tools");
    let source = tools.join(format!("redis-{VERSION}"));
    if source.join("tests/test_helper.tcl").is_file() {
        return Ok(source);
    }
    let lists = tools.join("apt-lists");
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(lists.join("partial")).map_err(|error| failed(&lists, error))?;
    let sources = tools.join("redis.sources");
    std::fs::write(&sources, SOURCES).map_err(|error| failed(&sources, error))?;
    let own = [
        format!("Dir::Etc::sourcelist={}", sources.display()),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("Dir::State::lists={}", lists.display()),
    ];
    let mut words: Vec<&str> = own.iter().flat_map(|setting| ["-o", setting]).collect();
    words.push("-qq");
    quietly("apt-get", &[&words[..], &["update"]].concat(), &tools)?;
    quietly("apt-get", &[&words[..], &["source", "--download-only", "--only-source", "redis"]].concat(), &tools)?;
    let archive = tools.join(ARCHIVE);
    if !archive.is_file() {
        return Err(format!("apt has fetched another version: {} is not there", archive.display()));
    }
    let line = format!("{DIGEST}  {ARCHIVE}\n");
    let sums = tools.join("redis.sha256");
    std::fs::write(&sums, line).map_err(|error| failed(&sums, error))?;
    quietly("sha256sum", &["--check", "--quiet", "redis.sha256"], &tools)?;
    quietly("tar", &["xzf", ARCHIVE], &tools)?;
    Ok(source)
}
