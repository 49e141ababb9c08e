//! Everything that a rule about commands can name: the commands of the table, their subcommands, and the commands of
//! Redis that Weir does not have. Each has a number, which is its bit in the set of allowed commands.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::bits::Bits;
use super::names::OTHERS;
use crate::args::Args;
use crate::table::redis_facts::is_in_redis_7_0;
use crate::table::{COMMANDS, Categories, Command, find, subcommands};

/// A command or subcommand that a rule can name.
pub(super) struct Named {
    /// The name in lower case; a subcommand's name follows its container's name and a `|`.
    pub(super) name: String,
    /// The number of its container, if it is a subcommand.
    pub(super) container: Option<usize>,
    /// The numbers of its subcommands.
    pub(super) subcommands: Vec<usize>,
}

/// Everything that can be named. The commands of the table come first, in its order.
pub(super) struct All {
    pub(super) named: Vec<Named>,
    by_name: BTreeMap<String, usize>,
    /// The members of each category, in the order of [`Categories::NAMES`].
    pub(super) categories: Vec<Bits>,
    /// The commands and subcommands that Redis 7.0 has.
    pub(super) known_to_redis: Bits,
}

/// Everything that can be named.
pub(super) static ALL: LazyLock<All> = LazyLock::new(All::gather);

impl All {
    fn gather() -> Self {
        let mut all = Self {
            named: Vec::new(),
            by_name: BTreeMap::new(),
            categories: vec![Bits::none(); Categories::NAMES.len()],
            known_to_redis: Bits::none(),
        };
        for command in COMMANDS {
            all.add(command.name, None, command.categories);
        }
        for names in OTHERS {
            for name in names.names.iter().filter(|name| find(name.as_bytes()).is_none()) {
                all.add(name, None, names.categories);
            }
        }
        for one in subcommands::SUBCOMMANDS {
            let container = all.by_name.get(one.container).copied();
            all.add(one.name, container, one.categories);
        }
        all
    }

    fn add(&mut self, name: &str, container: Option<usize>, categories: Categories) {
        let number = self.named.len();
        let name = match container {
            Some(container) => {
                self.named[container].subcommands.push(number);
                format!("{}|{name}", self.named[container].name)
            }
            None => name.to_owned(),
        };
        for (place, members) in self.categories.iter_mut().enumerate() {
            members.set(number, categories.has(place));
        }
        self.known_to_redis.set(number, is_in_redis_7_0(&name));
        self.by_name.insert(name.clone(), number);
        self.named.push(Named { name, container, subcommands: Vec::new() });
    }

    /// The number of the command or subcommand called `name`, in upper or lower case.
    pub(super) fn number_of(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.by_name.get(&name).copied()
    }

    /// The number of what `args` ask for: of a subcommand, if `command` has any. `None` if `command` has subcommands,
    /// and `args` name none of them.
    pub(super) fn number_in(&self, command: &Command, args: Args<'_>) -> Option<usize> {
        let subcommands = &self.named[command.index].subcommands;
        let Some(word) = args.get(1).filter(|_| !subcommands.is_empty()) else { return Some(command.index) };
        let front = command.name.len() + 1;
        subcommands
            .iter()
            .copied()
            .find(|&number| word.eq_ignore_ascii_case(&self.named[number].name.as_bytes()[front..]))
    }
}

/// The names of Weir's commands, and of their subcommands, that are in the category at `place` of
/// [`Categories::NAMES`].
pub fn members(place: usize) -> impl Iterator<Item = &'static str> {
    let is_here = |named: &Named, number: usize| named.container.unwrap_or(number) < COMMANDS.len();
    let all = ALL.named.iter().enumerate().filter(move |(number, named)| is_here(named, *number));
    all.filter(move |(number, _)| ALL.categories[place].has(*number)).map(|(_, named)| named.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_every_container_has_subcommands() {
        assert_eq!(ALL.by_name.len(), ALL.named.len());
        for command in COMMANDS.iter().filter(|command| command.is_container) {
            assert!(!ALL.named[command.index].subcommands.is_empty(), "{} has none", command.name);
        }
        for one in subcommands::SUBCOMMANDS {
            assert!(ALL.by_name.contains_key(one.container), "{}", one.full_name());
        }
        assert_eq!(ALL.number_of(b"CONFIG|Get"), ALL.number_of(b"config|get"));
        assert!(ALL.number_of(b"debug").is_some() && ALL.number_of(b"config|nothing").is_none());
    }

    #[test]
    fn every_command_that_names_channels_says_where() {
        use crate::table::ChannelUse;
        for command in COMMANDS.iter().filter(|command| command.group == "pubsub") {
            let ends = command.name.contains("unsubscribe") || command.is_container;
            assert_eq!(command.channel_use == ChannelUse::Nothing, ends, "{}", command.name);
        }
    }
}
