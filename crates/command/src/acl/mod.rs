//! Redis' access control lists: what a user may do, in rules.
//!
//! [`Rules`] are made from words as `ACL SETUSER` takes them, give themselves back in such words, and say whether a
//! request is allowed. All they know about passwords is that some rules are about them ([`PasswordRule`]). Nothing here
//! awaits more than its turn.

mod bits;
mod check;
mod commands;
mod named;
mod names;
mod pattern;
mod rule_error;
mod rules;
mod selector;

pub use check::{Denied, has_unknown_subcommand};
pub use named::members;
pub use rule_error::RuleError;
pub use rules::{Hash, PasswordRule, Rules, SELECTORS_MAX, SelectorWords, merged};
