//! What a script reaches of the world: whoever runs it holds the other end.

use weir_command::error::{Error, Outcome};
use weir_command::reply::Protocol;

/// Most memory of a run, beside what its machine has.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

/// What a run may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions between two looks whether it has to end.
    pub instructions: u32,
    /// Memory, beside what its machine has.
    pub memory_bytes: usize,
}

/// Runs the commands that a script asks for, one after the other.
pub trait Bridge {
    /// Runs the command of `words`; gives its reply in `protocol`, errors of the command included.
    ///
    /// # Errors
    /// The script has to end, with this error.
    fn call(&mut self, words: Vec<Vec<u8>>, protocol: Protocol) -> Outcome<Vec<u8>>;
}

/// What a script may ask beside commands, and what ends it. Functions of the machine keep it while the script runs.
pub trait World: Send + Sync {
    /// Whether the script may run the command of `words`; `None` where there is no such command.
    fn may(&self, words: &[Vec<u8>]) -> Option<bool>;

    /// A line for the log of the server: its level from 0 (debug) to 3 (warning), and its text.
    fn log(&self, level: u8, text: &[u8]);

    /// A library that is stored cannot be loaded, and its functions are left out.
    fn left_out(&self, library: &str, why: &Error);

    /// Why the script has to end now, if it has to. Whatever it does then, it ends with this error. Asked before each
    /// command, every few instructions, and by whatever in a library takes long.
    fn why_end(&self) -> Option<Error>;

    /// The machine has no memory left. Why the script has to end, unless it is to be told, and may catch it.
    fn no_memory(&self) -> Option<Error>;
}
