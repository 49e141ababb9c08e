//! Why something does not go on.

use std::fmt;
use std::io;

/// What can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Connect again: the other side, or the way to it, went away.
    Reconnect,
    /// Begin again with everything: what was followed cannot be followed any further.
    Restart,
    /// None is needed: all that there will be is here.
    End,
    /// Nothing but what the message says.
    None,
}

/// Why something does not go on, in words for the person at the terminal.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What can be done about it.
    pub remedy: Remedy,
    /// In words.
    pub message: String,
}

/// What went well, or why it did not.
pub type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// Something that a person has to mend.
    pub fn new(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::None, message: message.into() }
    }

    /// A connection that broke.
    pub fn broken(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Reconnect, message: message.into() }
    }

    /// A position from which nothing can be followed.
    pub fn lost(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Restart, message: message.into() }
    }

    /// Nothing more will come.
    pub fn end(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::End, message: message.into() }
    }

    /// The same, said of `what`.
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
