//! Random commands on rows, every one of them, over few keys, so that they meet.

use weir_command::table::{COMMANDS, Command, Id};
use weir_io::Rng;

use super::templates::template;

/// Keys of a group.
const KEYS: u64 = 3;

/// Values, some of which some commands refuse.
const VALUES: [&str; 6] = ["", "7", "-12", "3.5", "some text", "the quick brown fox jumps over the lazy dog"];

/// Fields of hashes, and members of sets.
const FIELDS: [&str; 4] = ["m1", "m2", "7", ""];

/// Draws commands whose keys belong to one group of keys, all of one hash slot.
pub struct Words<'r> {
    rng: &'r mut Rng,
    group: u64,
    words: Vec<Vec<u8>>,
}

/// The command on rows called `name`, in any case.
///
/// # Errors
/// There is no such command; the error lists which ones there are.
pub fn of_rows(name: &str) -> Result<Id, String> {
    let is_it = |command: &&Command| command.is_of_rows && command.name.eq_ignore_ascii_case(name);
    COMMANDS.iter().find(is_it).map(|command| command.id).ok_or_else(|| {
        let names: Vec<&str> = drawn(&[]).into_iter().map(|command| command.name).collect();
        format!("no such command on rows; there are {}", names.join(","))
    })
}

/// The commands to draw from: those in `only`, or all on rows if it is empty.
pub fn drawn(only: &[Id]) -> Vec<&'static Command> {
    let is_drawn = |command: &&Command| command.is_of_rows && (only.is_empty() || only.contains(&command.id));
    COMMANDS.iter().filter(is_drawn).collect()
}

/// The words of one of the commands in `drawn`, for keys of `group`.
pub fn draw(rng: &mut Rng, group: u64, drawn: &[&Command]) -> Vec<Vec<u8>> {
    let command = drawn[rng.below(drawn.len() as u64) as usize];
    let mut words = Words { rng, group, words: vec![command.name.as_bytes().to_vec()] };
    words.draw(command.id, command.name);
    words.words
}

impl Words<'_> {
    fn by_template(&mut self, words: &str) {
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            match word {
                "K" => self.key(),
                "F" => self.one_of(&FIELDS),
                "V" => self.one_of(&VALUES),
                "N" => self.one_of(&["-2", "-1", "0", "1", "3"]),
                "S" => self.one_of(&["-1.5", "0", "1", "2.25", "7"]),
                "[F" => self.word("[m2"),
                choice if choice.starts_with('|') => {
                    let choices: Vec<&str> = choice.trim_matches('|').split('|').collect();
                    self.one_of(&choices)
                }
                word => self.word(word),
            };
        }
    }

    fn word(&mut self, word: &str) -> &mut Self {
        self.words.push(word.as_bytes().to_vec());
        self
    }

    fn one_of(&mut self, choices: &[&str]) -> &mut Self {
        let choice = choices[self.rng.below(choices.len() as u64) as usize];
        self.word(choice)
    }

    fn key(&mut self) -> &mut Self {
        let key = format!("{{{}}}{}", self.group, self.rng.below(KEYS));
        self.word(&key)
    }

    /// Adds one to three keys.
    fn keys(&mut self) -> &mut Self {
        for _ in 0..=self.rng.below(KEYS) {
            self.key();
        }
        self
    }

    fn value(&mut self) -> &mut Self {
        self.one_of(&VALUES)
    }

    fn number(&mut self) -> &mut Self {
        let number = self.rng.below(40) as i64 - 10;
        self.word(&number.to_string())
    }

    fn bit(&mut self) -> &mut Self {
        self.one_of(&["0", "1"])
    }

    fn chance(&mut self, part: f64) -> bool {
        self.rng.chance(part)
    }

    /// Draws the words after the command's name. Keys expire at once or long after the run: so the moment does not
    /// depend on which command came first.
    fn draw(&mut self, id: Id, name: &str) {
        match id {
            Id::Get | Id::GetDel | Id::StrLen | Id::Type | Id::Incr | Id::Decr | Id::Dump => drop(self.key()),
            Id::Ttl | Id::PTtl | Id::ExpireTime | Id::PExpireTime => drop(self.key()),
            Id::Set => {
                self.key().value();
                match self.rng.below(6) {
                    0 => drop(self.word("NX")),
                    1 => drop(self.word("XX").word("GET")),
                    2 => drop(self.word("KEEPTTL")),
                    3 => drop(self.word("EX").word("100000")),
                    _ => {}
                }
            }
            Id::SetEx | Id::PSetEx => drop(self.key().word("100000000").value()),
            Id::SetNx | Id::GetSet | Id::Append => drop(self.key().value()),
            Id::GetEx => {
                self.key();
                if self.chance(0.5) {
                    self.one_of(&["PERSIST", "EX"]);
                    if self.words.last().is_some_and(|word| word == b"EX") {
                        self.word("100000");
                    }
                }
            }
            Id::MGet | Id::Del | Id::Unlink | Id::Exists | Id::Touch => drop(self.keys()),
            Id::MSet | Id::MSetNx => drop(self.key().value().key().value()),
            Id::IncrBy | Id::DecrBy => drop(self.key().number()),
            Id::IncrByFloat => drop(self.key().one_of(&["0.5", "-2", "1e3"])),
            Id::GetRange | Id::SubStr => drop(self.key().number().number()),
            Id::SetRange => drop(self.key().number().value()),
            Id::Lcs => drop(self.key().key().one_of(&["LEN", "IDX"])),
            Id::SetBit => drop(self.key().number().bit()),
            Id::GetBit => drop(self.key().number()),
            Id::BitCount => drop(self.key()),
            Id::BitPos => drop(self.key().bit()),
            Id::BitOp => {
                self.one_of(&["AND", "OR", "XOR", "NOT"]);
                let is_not = self.words[1] == b"NOT";
                self.key();
                if is_not {
                    self.key()
                } else {
                    self.keys()
                };
            }
            Id::BitField => {
                self.key();
                self.one_of(&["SET", "INCRBY"]).one_of(&["u5", "i8"]).one_of(&["#1", "13"]).number();
            }
            Id::BitFieldRo => drop(self.key().word("GET").one_of(&["u5", "i8"]).one_of(&["#1", "13"])),
            Id::Expire => drop(self.key().one_of(&["100000", "-1"])),
            Id::PExpire => drop(self.key().one_of(&["100000000", "-1"])),
            Id::ExpireAt => drop(self.key().one_of(&["99999999999", "1"])),
            Id::PExpireAt => drop(self.key().one_of(&["99999999999000", "1"])),
            Id::Persist => drop(self.key()),
            Id::Scan => drop(self.word("0").word("COUNT").number()),
            Id::Keys => drop(self.word("*0")),
            Id::RandomKey | Id::DbSize => {}
            Id::Rename | Id::RenameNx => drop(self.key().key()),
            Id::Copy => {
                self.key().key();
                match self.rng.below(3) {
                    0 => drop(self.word("REPLACE")),
                    1 => drop(self.word("DB").one_of(&["0", "1"])),
                    _ => {}
                }
            }
            Id::Move => drop(self.key().one_of(&["0", "1"])),
            Id::Restore => {
                self.key().word("0");
                // The payload of "300".
                self.words.push(b"\x00\xc1\x2c\x01\x0a\x00\x95\x42\x61\xf2\x65\x82\x5c\x10".to_vec());
                if self.chance(0.5) {
                    self.word("REPLACE");
                }
            }
            Id::Migrate => drop(self.word("host").word("1").key().word("0").word("1")),
            Id::Object => drop(self.one_of(&["ENCODING", "REFCOUNT", "IDLETIME"]).key()),
            Id::Sort => drop(self.key().word("STORE").key()),
            Id::SortRo => drop(self.key()),
            _ => self.by_template(template(name).unwrap_or_else(|| panic!("no template for {name}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_command::Request;

    use super::*;

    /// The templates forget no command of the table, and each command gets words that it accepts.
    #[test]
    fn every_command_of_rows_is_drawn() {
        let (mut rng, mut seen) = (Rng::new(1), BTreeSet::new());
        let of_rows = drawn(&[]);
        for _ in 0..5000 {
            let words = draw(&mut rng, 5, &of_rows);
            let request = Request::new(0, 0, words.iter().map(|word| &word[..]));
            let command = weir_command::table::find(request.args().at(0)).expect("a command");
            assert!(command.takes(request.args().len()), "{:?}", request.args());
            seen.insert(command.name);
        }
        assert_eq!(seen, of_rows.iter().map(|command| command.name).collect());
    }

    #[test]
    fn only_what_is_asked_for_is_drawn_and_an_unknown_name_gets_the_list() {
        let only = ["get", "SETEX"].map(|name| of_rows(name).expect("a command on rows"));
        assert_eq!(drawn(&only).iter().map(|command| command.name).collect::<Vec<_>>(), ["get", "setex"]);
        for name in ["gett", "ping", ""] {
            assert!(of_rows(name).is_err_and(|text| text.contains("get,set,setex,")), "{name:?}");
        }
    }
}
