//! Which commands a selector allows.

use std::collections::BTreeMap;

use super::bits::Bits;
use super::named::ALL;
use super::rule_error::RuleError;
use crate::args::Args;
use crate::table::{Categories, Command};

/// The commands that a selector allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Commands {
    allowed: Bits,
    /// The rules began with all commands, not with none: commands that are added to Weir later are allowed.
    is_open: bool,
    /// For a command that is not allowed otherwise, the first arguments with which it is allowed.
    first_args: BTreeMap<usize, Vec<String>>,
}

impl Commands {
    pub(super) fn allow_all(&mut self) {
        *self = Self { allowed: Bits::first(ALL.named.len()), is_open: true, first_args: BTreeMap::new() };
    }

    pub(super) fn allow_none(&mut self) {
        *self = Self::default();
    }

    /// Whether no command is refused.
    pub(super) fn are_all(&self) -> bool {
        self.is_open && self.allowed == Bits::first(ALL.named.len())
    }

    /// Applies `+…` or `-…`; `what` is the text behind the sign.
    pub(super) fn apply(&mut self, what: &[u8], allow: bool) -> Result<(), RuleError> {
        if let Some(category) = what.strip_prefix(b"@") {
            return self.set_category(category, allow);
        }
        match what.iter().rposition(|&byte| byte == b'|').filter(|_| allow) {
            Some(bar) => self.allow_behind(what, &what[..bar], &what[bar + 1..]),
            None => {
                self.set(ALL.number_of(what).ok_or(RuleError::Unknown)?, allow);
                Ok(())
            }
        }
    }

    fn set_category(&mut self, category: &[u8], allow: bool) -> Result<(), RuleError> {
        if category.eq_ignore_ascii_case(b"all") {
            if allow {
                self.allow_all()
            } else {
                self.allow_none()
            }
            return Ok(());
        }
        let members = &ALL.categories[Categories::find(category).ok_or(RuleError::Unknown)?];
        (0..ALL.named.len()).filter(|&number| members.has(number)).for_each(|number| self.set(number, allow));
        Ok(())
    }

    /// Applies `+command|argument`, which is `what` as a whole: `argument` is a subcommand, or a first argument.
    fn allow_behind(&mut self, what: &[u8], command: &[u8], argument: &[u8]) -> Result<(), RuleError> {
        let number = ALL.number_of(command).ok_or(RuleError::Unknown)?;
        let named = &ALL.named[number];
        if named.container.is_some() {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if argument.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !named.subcommands.is_empty() {
            self.set(ALL.number_of(what).ok_or(RuleError::Unknown)?, true);
            return Ok(());
        }
        let argument = std::str::from_utf8(argument).map_err(|_| RuleError::Syntax)?;
        if self.allowed.has(number) {
            // The command is allowed with any argument, and once it is not, all first arguments are forgotten.
            return Ok(());
        }
        let known = self.first_args.entry(number).or_default();
        if !known.iter().any(|known| known.eq_ignore_ascii_case(argument)) {
            known.push(argument.to_owned());
        }
        Ok(())
    }

    /// Allows or forbids the command with this number, and its subcommands.
    fn set(&mut self, number: usize, allow: bool) {
        self.allowed.set(number, allow);
        self.first_args.remove(&number);
        ALL.named[number].subcommands.iter().for_each(|&number| self.allowed.set(number, allow));
    }

    /// Whether a user may ask for `args`, of `command`; `number` is the number of what they ask for.
    pub(super) fn admit(&self, command: &Command, number: usize, args: Args<'_>) -> bool {
        // A user that may not log in could never become somebody else.
        if self.allowed.has(number) || command.is_for_strangers() {
            return true;
        }
        let Some(word) = args.get(1) else { return false };
        let known = self.first_args.get(&number).into_iter().flatten();
        known.into_iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
    }

    /// Rules that allow the same commands. They begin with all or with none, go on with the categories that say most,
    /// and end with single commands.
    pub(super) fn rules(&self) -> Vec<String> {
        let base = if self.is_open { "+@all" } else { "-@all" };
        let (mut rules, mut said) = (vec![base.to_owned()], Self::default());
        if self.is_open {
            said.allow_all();
        }
        // What is left to be said: chosen categories are taken out of it.
        let mut left = self.clone();
        let sign = if self.is_open { '-' } else { '+' };
        let mut unused: Vec<usize> = (0..Categories::NAMES.len()).collect();
        while let Some(best) = self.best_category(&left, &unused) {
            let name = Categories::NAMES[best];
            rules.push(format!("{sign}@{name}"));
            unused.retain(|&place| place != best);
            // The names are known, so neither call can fail.
            let _ = said.set_category(name.as_bytes(), !self.is_open);
            let _ = left.set_category(name.as_bytes(), self.is_open);
        }
        self.add_single_rules(said, &mut rules);
        rules
    }

    /// Of the categories with more commands of `left` than others, the one with the fewest others; of several such, the
    /// one with the most commands of `left`.
    fn best_category(&self, left: &Self, unused: &[usize]) -> Option<usize> {
        let mut best = None;
        for &place in unused {
            let (on, off) = left.allowed.compare(&ALL.categories[place].and(&ALL.known_to_redis));
            let (right, wrong) = if self.is_open { (off, on) } else { (on, off) };
            if right > wrong && best.is_none_or(|(_, wrongs, rights)| (wrong, rights) < (wrongs, right)) {
                best = Some((place, wrong, right));
            }
        }
        best.map(|(place, ..)| place)
    }

    /// Adds rules about single commands, where `said` differs from what is allowed.
    fn add_single_rules(&self, mut said: Self, rules: &mut Vec<String>) {
        let containers = ALL.named.iter().enumerate().filter(|(_, named)| named.container.is_none());
        for (number, named) in containers {
            for number in std::iter::once(number).chain(named.subcommands.iter().copied()) {
                let (is_allowed, name) = (self.allowed.has(number), &ALL.named[number].name);
                if is_allowed != said.allowed.has(number) {
                    rules.push(format!("{}{name}", if is_allowed { '+' } else { '-' }));
                    said.set(number, is_allowed);
                }
                let first_args = self.first_args.get(&number).filter(|_| !is_allowed);
                rules.extend(first_args.into_iter().flatten().map(|argument| format!("+{name}|{argument}")));
            }
        }
    }
}
