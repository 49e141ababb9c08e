//! What a script can reach outside of its machine. The code that runs the script has the other end.

use weir_command::error::{Error, Outcome};
use weir_command::reply::Protocol;

/// Most memory of a run, beside what its machine has already.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many instructions run between two checks whether the script has to end.
    pub instructions: u32,
    /// How many bytes of memory the run may use, beside what its machine has already.
    pub memory_bytes: usize,
}

/// Runs the commands of a script, one after the other.
pub trait Bridge {
    /// Runs the command with these `words`; gives its reply in `protocol`. An error of the command is a reply, too.
    ///
    /// # Errors
    /// The script has to end, with this error.
    fn call(&mut self, words: Vec<Vec<u8>>, protocol: Protocol) -> Outcome<Vec<u8>>;
}

/// What a script needs beside commands, and what ends it. Functions of the machine keep it while the script runs.
pub trait World: Send + Sync {
    /// Whether the script may run the command with these `words`; `None` if there is no such command.
    fn may(&self, words: &[Vec<u8>]) -> Option<bool>;

    /// A line for the log of the server: its level from 0 (debug) to 3 (warning), and its text.
    fn log(&self, level: u8, text: &[u8]);

    /// Notes that a stored library cannot be loaded, and that its functions are left out.
    fn left_out(&self, library: &str, why: &Error);

    /// Why the script has to end now, if it has to. Whatever the script does then, it ends with this error. This is
    /// called before each command, every few instructions, and by library functions that take long.
    fn why_end(&self) -> Option<Error>;

    /// Called when the machine has no memory left. Gives the error with which the script has to end; `None` if the
    /// script is told, and may catch the error.
    fn no_memory(&self) -> Option<Error>;
}
