//! All commands, asked by six roles (S7). What each role may do is derived here from the categories alone, so that a
//! command or a key that is not checked is found.

use weir_command::table::{COMMANDS, ChannelUse, Command};

use super::{World, ada};
use crate::support::Client;

/// A role: its rules, whether it may run a command, and whether it may use keys named `r:k`, `w:k` and `x:k`, or
/// channels of these names.
struct Role {
    name: &'static str,
    rules: &'static str,
    runs: fn(&Command) -> bool,
    keys: fn(&str) -> bool,
}

fn is_in(command: &Command, category: &str) -> bool {
    command.categories.names().any(|name| name == category)
}

const ROLES: [Role; 6] = [
    Role { name: "nobody", rules: "~* &*", runs: |_| false, keys: |_| true },
    Role {
        name: "reader",
        rules: "+@read ~r:*",
        runs: |command| is_in(command, "read") && !command.is_container,
        keys: |key| key == "r:k",
    },
    Role {
        name: "writer",
        rules: "-@all +@write ~w:* &w:*",
        runs: |command| is_in(command, "write") && !command.is_container,
        keys: |key| key == "w:k",
    },
    Role {
        name: "app",
        rules: "+@all -@admin -@dangerous ~w:* ~r:* &w:* &r:*",
        runs: |command| !is_in(command, "admin") && !is_in(command, "dangerous") && !command.is_container,
        keys: |key| key != "x:k",
    },
    Role {
        name: "selector",
        rules: "-@all (+@all -@slow ~x:* &x:*) (+@pubsub -@slow &r:*)",
        runs: |command| is_in(command, "fast"),
        keys: |key| key == "x:k",
    },
    Role { name: "owner", rules: "+@all ~* &*", runs: |_| true, keys: |_| true },
];

/// A question to `command` in which every word that may be a key or channel is `key`.
fn question(command: &Command, key: &str) -> Vec<String> {
    let count = command.arity.unsigned_abs().max(if command.arity < 0 { 3 } else { 1 }) as usize;
    let mut words = vec![key.to_owned(); count.max(command.counted.map_or(0, |place| place + 2))];
    words[0] = command.name.to_owned();
    if let Some(place) = command.counted {
        words[place] = "1".into();
    }
    if command.reads_streams {
        words = [command.name, "GROUP", "g", "c", "STREAMS", key, "0-0"].map(str::to_owned).to_vec();
    }
    if command.stores {
        words = [command.name, key, "STORE", key].map(str::to_owned).to_vec();
    }
    // The number of arguments is fixed.
    words.truncate(if command.arity > 0 { command.arity as usize } else { usize::MAX });
    words
}

/// Asks on a connection of its own, because some answers end it.
fn ask(world: &World, role: &Role, words: &[String]) -> String {
    let mut client: Client = world.connect("ada");
    assert_eq!(client.say(&format!("AUTH ada/{} x", role.name)), "+OK\r\n");
    String::from_utf8_lossy(&client.ask(words)).into_owned()
}

#[test]
fn s7_all_commands_are_refused_or_not_to_six_roles() {
    let (world, mut owner) = ada();
    for role in &ROLES {
        let line = format!("ACL SETUSER {} on nopass {}", role.name, role.rules);
        assert_eq!(owner.say(&line), "+OK\r\n", "{line}");
    }
    let mut asked = 0;
    for command in COMMANDS.iter().filter(|command| !command.is_container && !command.is_for_strangers()) {
        for role in &ROLES {
            for key in ["r:k", "w:k", "x:k"] {
                let words = question(command, key);
                let answer = ask(&world, role, &words);
                let names = command.channel_use != ChannelUse::Nothing || has_keys(command);
                // A pattern must itself be allowed; it is not enough that an allowed one covers it.
                let is_pattern = command.channel_use == ChannelUse::Patterns;
                // The rights of selectors do not add up.
                let may_use = match (role.name, command.channel_use) {
                    ("selector", ChannelUse::First | ChannelUse::Names) => matches!(key, "x:k" | "r:k"),
                    (_, ChannelUse::First | ChannelUse::Names) if role.name == "reader" => false,
                    ("owner" | "nobody", _) => true,
                    _ => (role.keys)(key) && !is_pattern,
                };
                let expected = match ((role.runs)(command), names && !may_use) {
                    (false, _) => "-NOPERM this user has no permissions to run",
                    (true, true) => "-NOPERM this user has no permissions to access one of the",
                    (true, false) => "",
                };
                let is_refused = answer.starts_with("-NOPERM this user");
                assert_eq!(is_refused, !expected.is_empty(), "{} {words:?}: {answer}", role.name);
                assert!(answer.starts_with(expected), "{} {words:?}: {answer}", role.name);
                asked += 1;
            }
        }
    }
    assert!(asked > 2000, "{asked} questions");
    // Nothing that was refused has had an effect.
    assert_eq!(owner.say("ACL LOG RESET"), "+OK\r\n");
}

fn has_keys(command: &Command) -> bool {
    command.keys.0 > 0 || command.counted.is_some() || command.reads_streams
}
