//! Whether a request is allowed: its command, every key that it names, and every channel that it names.

use weir_io::Yield;

use super::named::ALL;
use super::rules::Rules;
use super::selector::Selector;
use crate::args::Args;
use crate::error::Error;
use crate::glob::Turn;
use crate::table::{ChannelUse, Command};

/// What is not allowed. If several selectors refuse a request, the denial that came furthest is told; a later one is
/// greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command. (Or there is no such subcommand; [`has_unknown_subcommand`] tells.)
    Command,
    /// What is done to a key, which is the word with this number.
    Key(usize),
    /// The use of a channel, which is the word with this number.
    Channel(usize),
    /// This option, which names keys that depend on what is stored: only a user that may read all keys may use it.
    Following(&'static str),
}

impl Denied {
    /// What was not allowed, for `ACL LOG`: a command, a key or a channel.
    pub fn object(self, command: &Command, args: Args<'_>) -> Vec<u8> {
        match self {
            Denied::Command | Denied::Following(_) => command.full_name(args).into_bytes(),
            Denied::Key(place) | Denied::Channel(place) => args.get(place).unwrap_or_default().to_vec(),
        }
    }

    /// Redis' word for the reason, if `ACL LOG` has one.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Denied::Command => Some("command"),
            Denied::Key(_) => Some("key"),
            Denied::Channel(_) => Some("channel"),
            Denied::Following(_) => None,
        }
    }

    /// The answer to a client.
    pub fn as_error(self, command: &Command, args: Args<'_>) -> Error {
        match self {
            Denied::Command => {
                let name = command.full_name(args);
                Error::bytes(format!("NOPERM this user has no permissions to run the '{name}' command").into_bytes())
            }
            Denied::Key(_) => {
                Error::new("NOPERM this user has no permissions to access one of the keys used as arguments")
            }
            Denied::Channel(_) => {
                Error::new("NOPERM this user has no permissions to access one of the channels used as arguments")
            }
            Denied::Following(option) => {
                let text = format!("ERR {option} option of SORT denied due to insufficient ACL permissions.");
                Error::bytes(text.into_bytes())
            }
        }
    }

    /// The answer at `EXEC`, for a command that was allowed when it was queued.
    pub fn as_error_at_exec(self, command: &Command, args: Args<'_>) -> Error {
        let why = match self {
            Denied::Command => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
            Denied::Channel(_) => "no permission to access one of the channels used as arguments",
            Denied::Following(_) => return self.as_error(command, args),
        };
        let front = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                     command is no longer allowed for the following reason: ";
        Error::bytes([front, why].concat().into_bytes())
    }

    /// The answer to a script.
    pub fn as_error_in_script(self, command: &Command, args: Args<'_>) -> Error {
        match self {
            Denied::Command => Error::new("ERR The user executing the script can't run this command or subcommand"),
            Denied::Key(_) => Error::new(
                "ERR The user executing the script can't access at least one of the keys mentioned in the command \
                 arguments",
            ),
            Denied::Channel(_) => {
                Error::new("ERR The user executing the script can't publish to the channel mentioned in the command")
            }
            Denied::Following(_) => self.as_error(command, args),
        }
    }

    /// The reason in words, for `ACL DRYRUN`.
    pub fn explain(self, command: &Command, args: Args<'_>) -> Vec<u8> {
        let front = &b"This user has no permissions to "[..];
        let object = self.object(command, args);
        match self {
            Denied::Command => [front, b"run the '", &object, b"' command"].concat(),
            Denied::Key(_) => [front, b"access the '", &object, b"' key"].concat(),
            Denied::Channel(_) => [front, b"access the '", &object, b"' channel"].concat(),
            Denied::Following(option) => [front, b"use the option ", option.as_bytes()].concat(),
        }
    }
}

/// Whether `args`, of `command`, name a subcommand that does not exist: it cannot be run, whatever the user may do.
pub fn has_unknown_subcommand(command: &Command, args: Args<'_>) -> bool {
    ALL.number_in(command, args).is_none()
}

impl Rules {
    /// Whether a user may ask for `args`, of `command`. If the check takes long, others are served meanwhile.
    ///
    /// # Errors
    /// What is not allowed.
    pub async fn check(&self, command: &'static Command, args: Args<'_>, yields: Yield) -> Result<(), Denied> {
        let mut denied = Denied::Command;
        for selector in &self.selectors {
            match selector.check(command, args, yields).await {
                Ok(()) => return Ok(()),
                Err(other) => denied = denied.max(other),
            }
        }
        Err(denied)
    }

    /// As [`Rules::check`], for a request that is about to run: options that name keys by what is stored count, too.
    ///
    /// # Errors
    /// What is not allowed.
    pub async fn check_to_run(&self, command: &'static Command, args: Args<'_>, yields: Yield) -> Result<(), Denied> {
        self.check(command, args, yields).await?;
        match following_option(command, args) {
            Some(option) if !self.may_follow(command, args, yields).await => Err(Denied::Following(option)),
            _ => Ok(()),
        }
    }

    async fn may_follow(&self, command: &'static Command, args: Args<'_>, yields: Yield) -> bool {
        for selector in self.selectors.iter().filter(|selector| selector.reads_all_keys()) {
            if selector.check(command, args, yields).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Whether a user that may listen to `name`, a channel or a pattern, under other rules may do so under these rules.
    /// As in Redis, all selectors count together.
    pub async fn keep_listening(&self, name: &[u8], is_pattern: bool, yields: Yield) -> bool {
        let mut turn = Turn::new(yields);
        for selector in &self.selectors {
            if selector.admits_channel(name, is_pattern, &mut turn).await {
                return true;
            }
        }
        false
    }

    /// Whether these rules allow all channels that the rules `before` allow, as far as that can be told without a name.
    pub fn keep_channels_of(&self, before: &Self) -> bool {
        let has = |text: &[u8]| self.selectors.iter().any(|selector| selector.channel_texts().any(|own| own == text));
        self.selectors.iter().any(Selector::has_all_channels)
            || !before.selectors.iter().any(Selector::has_all_channels)
                && before.selectors.iter().flat_map(Selector::channel_texts).all(has)
    }
}

impl Selector {
    async fn check(&self, command: &'static Command, args: Args<'_>, yields: Yield) -> Result<(), Denied> {
        let number = ALL.number_in(command, args).ok_or(Denied::Command)?;
        if !self.commands.admit(command, number, args) {
            return Err(Denied::Command);
        }
        let mut turn = Turn::new(yields);
        if !self.has_all_keys() {
            for used in command.used_keys(args) {
                if !self.admits_key(&used, &mut turn).await {
                    return Err(Denied::Key(used.place));
                }
            }
        }
        if command.channel_use == ChannelUse::Nothing || self.has_all_channels() {
            return Ok(());
        }
        let last = if command.channel_use == ChannelUse::First { 2 } else { args.len() };
        for place in 1..last.min(args.len()) {
            let is_pattern = command.channel_use == ChannelUse::Patterns;
            if !self.admits_channel(args.at(place), is_pattern, &mut turn).await {
                return Err(Denied::Channel(place));
            }
        }
        Ok(())
    }
}

/// The option of a `SORT` that names keys by what is stored, if there is one.
fn following_option(command: &Command, args: Args<'_>) -> Option<&'static str> {
    let mut place = 2;
    while let Some(word) = args.get(place).filter(|_| command.follows) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match args.get(place + 1) {
            Some(pattern) if is("BY") && pattern.contains(&b'*') => return Some("BY"),
            Some(_) if is("GET") => return Some("GET"),
            _ => {}
        }
        place += match () {
            () if is("LIMIT") => 3,
            () if is("STORE") || is("BY") => 2,
            () => 1,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polled::turns;
    use crate::request::Request;
    use crate::table::find;

    fn rules(text: &str) -> Rules {
        let mut rules = Rules::default();
        for word in super::super::merged(text.split(' ').map(str::as_bytes)).expect("closed") {
            let _ = rules.apply(&word).expect("a rule");
        }
        rules
    }

    fn check(rules: &str, line: &str) -> Result<(), Denied> {
        let rules = self::rules(rules);
        let request = Request::new(0, 0, line.split(' ').map(str::as_bytes));
        let command = find(request.args().at(0)).expect("a command");
        turns(rules.check(command, request.args(), Yield::PLAIN)).1
    }

    #[test]
    fn s7_what_may_not_be_done_is_refused_key_by_key_and_channel_by_channel() {
        for (rules, line, answer) in [
            ("", "GET a", Err(Denied::Command)),
            ("+get", "GET a", Err(Denied::Key(1))),
            ("+get ~a*", "GET ab", Ok(())),
            ("+get ~a*", "GET b", Err(Denied::Key(1))),
            ("+mget ~a*", "MGET a a b", Err(Denied::Key(3))),
            ("+mget ~a*", "DEL a", Err(Denied::Command)),
            ("", "AUTH a b", Ok(())),
            ("", "HELLO 3", Ok(())),
            ("+@all %R~a", "SET a 1", Err(Denied::Key(1))),
            ("+@all %W~a", "SET a 1", Ok(())),
            ("+@all %W~a", "SET a 1 GET", Err(Denied::Key(1))),
            ("+@all %W~a", "STRLEN a", Ok(())),
            ("+@all %R~a %W~b", "COPY a b", Ok(())),
            ("+@all %R~a %W~b", "COPY b a", Err(Denied::Key(1))),
            ("+@all ~a", "SORT a STORE b", Err(Denied::Key(3))),
            ("+@all ~d ~a", "BITOP AND d a b", Err(Denied::Key(4))),
            ("+@all ~a", "EVAL s 2 a b", Err(Denied::Key(4))),
            ("+@all ~a", "XREAD STREAMS a b 0 0", Err(Denied::Key(3))),
            ("+@all", "PUBLISH c m", Err(Denied::Channel(1))),
            ("+@all &c*", "PUBLISH cd m", Ok(())),
            ("+@all &c*", "SUBSCRIBE cd d", Err(Denied::Channel(2))),
            ("+@all &c*", "PSUBSCRIBE c*", Ok(())),
            ("+@all &c*", "PSUBSCRIBE cd*", Err(Denied::Channel(1))),
            ("", "UNSUBSCRIBE c", Err(Denied::Command)),
            ("+@all", "UNSUBSCRIBE c", Ok(())),
            ("+config|get", "CONFIG GET x", Ok(())),
            ("+config|get", "CONFIG SET x y", Err(Denied::Command)),
            ("+@all -config|set", "CONFIG SET x y", Err(Denied::Command)),
            ("+@all", "CONFIG NOTHING", Err(Denied::Command)),
            ("+select|0", "SELECT 0", Ok(())),
            ("+select|0", "SELECT 1", Err(Denied::Command)),
            ("+get ~a (+set ~b)", "SET b 1", Ok(())),
            ("+get ~a (+set ~b)", "SET a 1", Err(Denied::Key(1))),
            ("+mget ~key (+mget ~key ~other)", "MGET key other more", Err(Denied::Key(3))),
        ] {
            assert_eq!(check(rules, line), answer, "{rules:?}: {line}");
        }
    }

    #[test]
    fn channels_are_kept_or_not() {
        for (before, after, are_kept) in [
            ("&a &b", "&a &b &c", true),
            ("&a &b", "&a", false),
            ("&*", "&a", false),
            ("&*", "allchannels", true),
            ("&a", "(&a)", true),
        ] {
            assert_eq!(rules(after).keep_channels_of(&rules(before)), are_kept, "{before} {after}");
        }
    }

    #[test]
    fn options_that_follow_what_is_stored_are_known() {
        for (line, option) in [
            ("SORT a", None),
            ("SORT a BY nothing", None),
            ("SORT a BY w*", Some("BY")),
            ("SORT_RO a GET #", Some("GET")),
            ("SORT a LIMIT GET 1 STORE GET", None),
            ("LRANGE a GET x", None),
        ] {
            let request = Request::new(0, 0, line.split(' ').map(str::as_bytes));
            let command = find(request.args().at(0)).expect("a command");
            assert_eq!(following_option(command, request.args()), option, "{line}");
        }
    }
}
