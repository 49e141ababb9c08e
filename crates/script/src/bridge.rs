//! What a script reaches of the world: whoever runs it holds the other end.

use weir_command::error::Error;
use weir_command::reply::Protocol;

/// What a script asks for.
pub trait Bridge {
    /// Runs the command of `words`; gives its reply in `protocol`, errors included.
    fn call(&mut self, words: Vec<Vec<u8>>, protocol: Protocol) -> Vec<u8>;

    /// Whether it may run the command of `words`; `None` where there is no such command.
    fn may(&self, words: &[Vec<u8>]) -> Option<bool>;

    /// A line for the log of the server: its level from 0 (debug) to 3 (warning), and its text.
    fn log(&mut self, level: u8, text: &[u8]);

    /// Why the script has to end now, if it has to. Whatever it does then, it ends with this error.
    fn why_end(&mut self) -> Option<Error>;
}
