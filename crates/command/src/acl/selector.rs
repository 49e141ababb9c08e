//! A selector: commands, and the keys and channels that they may be used with.

use super::commands::Commands;
use super::pattern::Pattern;
use super::rule_error::RuleError;
use crate::glob::Turn;
use crate::table::UsedKey;

/// A pattern of keys, and what may be done to them.
#[derive(Clone)]
struct KeyPattern {
    pattern: Pattern,
    read: bool,
    write: bool,
}

/// Commands that are allowed on some keys and channels.
#[derive(Clone, Default)]
pub(super) struct Selector {
    pub(super) commands: Commands,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Pattern>,
}

impl Selector {
    /// A selector that allows no command, on no key, and on all channels or none.
    pub(super) fn new(all_channels: bool) -> Self {
        Self { all_channels, ..Self::default() }
    }

    /// A selector that allows everything.
    pub(super) fn full() -> Self {
        let mut selector = Self { all_keys: true, ..Self::new(true) };
        selector.commands.allow_all();
        selector
    }

    /// Applies a rule.
    pub(super) fn apply(&mut self, word: &[u8]) -> Result<(), RuleError> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match word {
            _ if is("allkeys") || word == b"~*" => self.set_all_keys(true),
            _ if is("resetkeys") => self.set_all_keys(false),
            _ if is("allchannels") || word == b"&*" => self.set_all_channels(true),
            _ if is("resetchannels") => self.set_all_channels(false),
            _ if is("allcommands") => self.commands.allow_all(),
            _ if is("nocommands") => self.commands.allow_none(),
            [b'+', what @ ..] => self.commands.apply(what, true)?,
            [b'-', what @ ..] => self.commands.apply(what, false)?,
            [b'~' | b'%', ..] => self.add_keys(word)?,
            [b'&', pattern @ ..] => self.add_channels(pattern)?,
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_all_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
    }

    fn set_all_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    /// Applies `~pattern` or `%RW~pattern`.
    fn add_keys(&mut self, word: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeys);
        }
        let tilde = word.iter().position(|&byte| byte == b'~').ok_or(RuleError::Syntax)?;
        let (mut read, mut write) = (tilde == 0, tilde == 0);
        for letter in word[..tilde].iter().skip(1) {
            let flag = match letter {
                b'R' | b'r' => &mut read,
                b'W' | b'w' => &mut write,
                _ => return Err(RuleError::Syntax),
            };
            if std::mem::replace(flag, true) {
                return Err(RuleError::Syntax);
            }
        }
        if !read && !write {
            return Err(RuleError::Syntax);
        }
        let pattern = Pattern::new(&word[tilde + 1..])?;
        match self.keys.iter_mut().find(|known| known.pattern.text == pattern.text) {
            Some(known) => {
                known.read |= read;
                known.write |= write;
            }
            None => self.keys.push(KeyPattern { pattern, read, write }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AllChannels);
        }
        let pattern = Pattern::new(pattern)?;
        if !self.channels.iter().any(|known| known.text == pattern.text) {
            self.channels.push(pattern);
        }
        Ok(())
    }

    /// Whether the selector refuses nothing.
    pub(super) fn is_full(&self) -> bool {
        self.all_keys && self.all_channels && self.commands.are_all()
    }

    /// Whether every key may be read.
    pub(super) fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|keys| keys.read && keys.pattern.is_any())
    }

    pub(super) fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    pub(super) fn has_all_channels(&self) -> bool {
        self.all_channels
    }

    /// Whether the command may use this key as it does.
    pub(super) async fn admits_key(&self, used: &UsedKey<'_>, turn: &mut Turn) -> bool {
        if self.all_keys {
            return true;
        }
        let (reads, writes) = (used.is_read(), used.is_written());
        for keys in self.keys.iter().filter(|keys| keys.read >= reads && keys.write >= writes) {
            turn.spend(1).await;
            if keys.pattern.matches(used.key, turn).await {
                return true;
            }
        }
        false
    }

    /// Whether this channel may be used. If `name` is a pattern, it has to be one of the selector's patterns literally.
    pub(super) async fn admits_channel(&self, name: &[u8], is_pattern: bool, turn: &mut Turn) -> bool {
        if self.all_channels {
            return true;
        }
        for channels in &self.channels {
            turn.spend(1).await;
            if if is_pattern { *channels.text == *name } else { channels.matches(name, turn).await } {
                return true;
            }
        }
        false
    }

    /// How many patterns the selector has.
    pub(super) fn patterns(&self) -> usize {
        self.keys.len() + self.channels.len()
    }

    /// The texts of its patterns of channels.
    pub(super) fn channel_texts(&self) -> impl Iterator<Item = &[u8]> {
        self.channels.iter().map(|pattern| &*pattern.text)
    }

    /// Rules that make the selector's keys: with `told` as Redis shows them, otherwise so that they can be read again.
    pub(super) fn key_rules(&self, told: bool) -> Vec<Vec<u8>> {
        if self.all_keys {
            return vec![b"~*".to_vec()];
        }
        let rule = |keys: &KeyPattern| {
            let front = match (keys.read, keys.write) {
                (true, false) => &b"%R~"[..],
                (false, true) => b"%W~",
                // If `*` was allowed for reading and for writing separately, Redis shows `~*`. That means all keys, and
                // patterns behind it are refused.
                _ if !told && &*keys.pattern.text == b"*" => b"%RW~",
                _ => b"~",
            };
            [front, &keys.pattern.text].concat()
        };
        self.keys.iter().map(rule).collect()
    }

    /// Rules that make the selector's channels.
    pub(super) fn channel_rules(&self) -> Vec<Vec<u8>> {
        if self.all_channels {
            return vec![b"&*".to_vec()];
        }
        self.channels.iter().map(|pattern| [b"&", &*pattern.text].concat()).collect()
    }

    /// Rules that make this selector out of an empty one; for `told`, see [`Selector::key_rules`].
    pub(super) fn rules(&self, told: bool) -> Vec<Vec<u8>> {
        let mut rules = self.key_rules(told);
        if !self.all_channels {
            rules.push(b"resetchannels".to_vec());
        }
        rules.extend(self.channel_rules());
        rules.extend(self.commands.rules().into_iter().map(String::into_bytes));
        rules
    }
}
