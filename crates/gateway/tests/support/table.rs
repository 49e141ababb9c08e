//! Questions made from the table of commands.

use super::{Client, encode};

/// Words that have a meaning for some command.
pub const WORDS: [&str; 46] = [
    "MATCH",
    "COUNT",
    "TYPE",
    "string",
    "ID",
    "ADDR",
    "LADDR",
    "USER",
    "SKIPME",
    "yes",
    "no",
    "NX",
    "XX",
    "GET",
    "EX",
    "PX",
    "KEEPTTL",
    "REPLACE",
    "DB",
    "STORE",
    "BY",
    "LIMIT",
    "FILTERBY",
    "PATTERN",
    "normal",
    "all",
    "everything",
    "IDX",
    "LEN",
    "SETNAME",
    "AUTH",
    "AND",
    "OR",
    "NOT",
    "XOR",
    "BYTE",
    "u8",
    "SET",
    "INCRBY",
    "SAMPLES",
    "ABSTTL",
    "0",
    "1",
    "3",
    "-1",
    "slowlog-log-slower-than",
];

/// How a question is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Directly,
    ByScript,
    InTransaction,
}

impl Way {
    pub const ALL: [Way; 3] = [Way::Directly, Way::ByScript, Way::InTransaction];

    /// The requests that put `question` in this way.
    pub fn put(self, question: &[String]) -> Vec<u8> {
        match self {
            Way::Directly => encode(question),
            Way::ByScript => {
                let script = ["EVAL", "return redis.pcall(unpack(ARGV))", "0"];
                encode(&script.into_iter().chain(question.iter().map(String::as_str)).collect::<Vec<_>>())
            }
            Way::InTransaction => [encode(&["MULTI"]), encode(question), encode(&["EXEC"])].concat(),
        }
    }
}

/// The subcommands that `NAME HELP` lists.
pub fn subcommands(client: &mut Client, name: &str) -> Vec<String> {
    let help = client.say(&format!("{name} HELP"));
    if !help.starts_with('*') {
        return Vec::new();
    }
    let lines = help.split("\r\n").filter_map(|line| line.strip_prefix('+')).skip(1);
    let words = lines.flat_map(|line| line.split(':').next().unwrap_or("").split('|'));
    let named = words.filter_map(|part| part.split_whitespace().next());
    named.filter(|word| word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')).map(str::to_owned).collect()
}
