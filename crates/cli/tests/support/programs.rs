//! Programs in other languages: their dependencies are installed once, below `target`, and their running time is
//! limited.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest time for the installation and the run of one library together.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A directory of sources below `tests`.
pub fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(name).canonicalize().expect("in the repository")
}

/// The directory of an installation, which stays after the test.
pub fn installed(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../clients").join(name);
    std::fs::create_dir_all(&dir).expect("target can be written");
    dir.canonicalize().expect("just made")
}

/// Says that something was not tested, and why.
pub fn skip(name: &str, reason: &str) {
    // Unlike print this is not captured: people who read the results must see what was not tested.
    let _ = writeln!(std::io::stderr(), "{name}: skipped, {reason}");
}

/// Runs `command` to its end; `None` if there is no such program or it does not end in time.
pub fn run(command: &mut Command) -> Option<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let begin = Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, is_over) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if is_over.recv_timeout(PATIENCE.saturating_sub(begin.elapsed()))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    let output = {
        let stdout = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.map(|mut pipe| std::io::Read::read_to_end(&mut pipe, &mut bytes));
            bytes
        });
        let mut output = child.wait_with_output().ok()?;
        output.stdout = reader.join().ok()?;
        output
    };
    drop(ended);
    let _ = guard.join();
    Some(output)
}

/// Runs the steps of an installation once: a `mark` remembers that it succeeded with these sources. False if it cannot
/// be done.
pub fn install(name: &str, dir: &Path, pinned: &str, steps: &mut [Command]) -> bool {
    let mark = dir.join("installed");
    if std::fs::read_to_string(&mark).is_ok_and(|found| found == pinned) {
        return true;
    }
    for step in steps {
        match run(step) {
            None => {
                skip(name, &format!("there is no {}", step.get_program().display()));
                return false;
            }
            Some(output) if !output.status.success() => {
                let said =
                    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
                let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                skip(name, &format!("{} failed: {last}", step.get_program().display()));
                return false;
            }
            Some(_) => {}
        }
    }
    std::fs::write(mark, pinned).expect("target can be written");
    true
}

/// A process to start.
pub fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("paths of the repository are UTF-8")
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it is there")
}
