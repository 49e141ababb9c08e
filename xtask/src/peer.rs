//! `cargo xtask peer rocksdb`: fetches a current RocksDB into `.tools/`, where `weir bench` looks for it.
//!
//! RocksDB publishes no shared library of its own, but its Java binding on Maven Central holds one for every platform,
//! with the whole C API in it. If Maven is missing or cannot fetch it, the distribution's (older) library is installed
//! instead.

use std::path::Path;
use std::process::{Command, Stdio};

/// The binding's coordinates. The version is fixed, so that figures of two days can be compared; raise it on purpose.
const ARTIFACT: &str = "org.rocksdb:rocksdbjni:10.10.1";
/// The binding's file.
const JAR: &str = "rocksdbjni-10.10.1.jar";
/// The library inside.
const LIBRARY: &str = "librocksdbjni-linux64.so";
/// The distribution's package, for when Maven does not help.
const PACKAGE: &str = "librocksdb7.8";

/// Fetches the peer called `name`.
pub fn fetch(name: Option<&str>, root: &Path) -> Result<(), String> {
    if name != Some("rocksdb") {
        return Err("which peer? There is one: cargo xtask peer rocksdb".into());
    }
    let tools = root.join(".tools");
    let library = tools.join(LIBRARY);
    if library.is_file() {
        println!("{} is there already", library.display());
        return Ok(());
    }
    std::fs::create_dir_all(&tools).map_err(|error| format!("{}: {error}", tools.display()))?;
    match from_maven(&tools) {
        Ok(()) => println!("{} is there: RocksDB from {ARTIFACT}", library.display()),
        Err(error) => {
            eprintln!("{error}; installing the distribution's {PACKAGE} instead");
            quietly("apt-get", &["install", "-y", "-qq", PACKAGE], &tools)
                .map_err(|error| format!("{error}; name a library with `weir bench --peer-lib FILE`"))?;
            println!("installed {PACKAGE}");
        }
    }
    Ok(())
}

/// Fetches the jar with Maven (through the mirror that it is configured for), and takes the library out with unzip.
fn from_maven(tools: &Path) -> Result<(), String> {
    let artifact = format!("-Dartifact={ARTIFACT}");
    let output = format!("-DoutputDirectory={}", tools.display());
    quietly("mvn", &["-q", "-B", "dependency:copy", &artifact, &output], tools)?;
    quietly("unzip", &["-oq", JAR, LIBRARY], tools).or_else(|_| quietly("jar", &["xf", JAR, LIBRARY], tools))?;
    std::fs::remove_file(tools.join(JAR)).map_err(|error| format!("{JAR}: {error}"))
}

/// Runs a command in `dir`; its output is shown only if it fails.
pub fn quietly(program: &str, arguments: &[&str], dir: &Path) -> Result<(), String> {
    let line = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).current_dir(dir).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot start `{line}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("`{line}` failed: {}\n{}", output.status, String::from_utf8_lossy(&said).trim_end()))
}
