//! Why a rule is refused.

use std::fmt;

/// Why a rule is refused, shown in Redis' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The word is not a rule.
    Syntax,
    /// There is no such command, subcommand or category.
    Unknown,
    /// A pattern of keys, although all keys are allowed already.
    AllKeys,
    /// A pattern of channels, although all channels are allowed already.
    AllChannels,
    /// A first argument behind a subcommand.
    FirstArgOfSubcommand,
    /// A hash that is malformed.
    BadHash,
    /// A password to be removed that the user does not have.
    NoSuchPassword,
    /// A pattern that is too long.
    LongPattern,
    /// More passwords than a user may have.
    ManyPasswords,
    /// More selectors than a user may have.
    ManySelectors,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::Syntax => "Syntax error",
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            RuleError::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            RuleError::LongPattern => "a pattern is at most 1024 bytes long",
            RuleError::ManyPasswords => "a user has at most 16 passwords",
            RuleError::ManySelectors => "a user has at most 16 selectors",
        })
    }
}

impl std::error::Error for RuleError {}
