//! Why a transfer does not go on, and what can be done about it.

use std::fmt;
use std::io;

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Connect again: the other side, or the network between, went away.
    Reconnect,
    /// Begin everything again: the source cannot be followed any further from where we are.
    Restart,
    /// No remedy is needed: the data has ended, and all of it is here.
    End,
    /// Only what the message says.
    None,
}

/// Why a transfer does not go on, in words for the person at the terminal.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What can be done about it.
    pub remedy: Remedy,
    /// The reason in words.
    pub message: String,
}

/// A result, or why there is none.
pub type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure that a person has to fix.
    pub fn new(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::None, message: message.into() }
    }

    /// The failure of a connection that broke.
    pub fn broken(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Reconnect, message: message.into() }
    }

    /// The failure of a target that takes nothing more, as it says by `error`.
    pub fn ended(error: &str) -> Self {
        Self::new(format!("the target takes nothing more: {error}"))
    }

    /// The failure of a position from which the source cannot be followed.
    pub fn lost(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Restart, message: message.into() }
    }

    /// The end of the data: nothing more will come.
    pub fn end(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::End, message: message.into() }
    }

    /// The same failure, with a message about `what`.
    #[must_use]
    pub fn of(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::broken(error.to_string())
    }
}
