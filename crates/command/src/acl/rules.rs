//! What a user may do, as rules in the form of Redis 7.0.

use super::pattern::has_spaces;
use super::rule_error::RuleError;
use super::selector::Selector;

/// Most selectors of one user.
pub const SELECTORS_MAX: usize = 16;

/// A SHA-256.
pub type Hash = [u8; 32];

/// How many digits a hash has as text.
const HASH_DIGITS: usize = 64;

/// A rule about passwords, which are kept elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordRule<'a> {
    /// Adds this password.
    Add(&'a [u8]),
    /// Adds the password with this hash.
    AddHash(Hash),
    /// Removes this password.
    Remove(&'a [u8]),
    /// Removes the password with this hash.
    RemoveHash(Hash),
    /// Removes all passwords.
    Clear,
}

/// What a user may do.
#[derive(Clone)]
pub struct Rules {
    /// The user may log in.
    pub is_on: bool,
    /// The user may log in with any password.
    pub needs_no_password: bool,
    /// What a rule said about checking the payload of `RESTORE`. Weir always checks it.
    sanitizes: Option<bool>,
    /// The selectors. Rules outside of parentheses are about the first one. A request is allowed if any selector allows
    /// it.
    pub(super) selectors: Vec<Selector>,
}

impl Default for Rules {
    fn default() -> Self {
        Self::new(false)
    }
}

/// A selector in words, for `ACL GETUSER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorWords {
    /// Rules about commands.
    pub commands: Vec<u8>,
    /// Patterns of keys.
    pub keys: Vec<u8>,
    /// Patterns of channels.
    pub channels: Vec<u8>,
}

impl Rules {
    /// The rules of a new user, who may run no command, but may have all channels.
    pub fn new(all_channels: bool) -> Self {
        let selectors = vec![Selector::new(all_channels)];
        Self { is_on: false, needs_no_password: false, sanitizes: None, selectors }
    }

    /// The rules of a user that may do everything.
    pub fn full() -> Self {
        Self { is_on: true, selectors: vec![Selector::full()], ..Self::default() }
    }

    /// Applies a rule. A rule about passwords is also returned, even if it is about other things, too.
    ///
    /// # Errors
    /// The word is not a rule. Nothing has changed.
    pub fn apply<'a>(&mut self, word: &'a [u8]) -> Result<Option<PasswordRule<'a>>, RuleError> {
        self.apply_with_default(word, false)
    }

    /// As [`Rules::apply`]. A selector that the rule makes (`reset`, or parentheses) has all channels to begin with, or
    /// none.
    ///
    /// # Errors
    /// The word is not a rule. Nothing has changed.
    pub fn apply_with_default<'a>(
        &mut self,
        word: &'a [u8],
        all_channels: bool,
    ) -> Result<Option<PasswordRule<'a>>, RuleError> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match word {
            [] => {}
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            _ if is("nopass") => {
                self.needs_no_password = true;
                return Ok(Some(PasswordRule::Clear));
            }
            _ if is("resetpass") => {
                self.needs_no_password = false;
                return Ok(Some(PasswordRule::Clear));
            }
            _ if is("sanitize-payload") => self.sanitizes = Some(true),
            _ if is("skip-sanitize-payload") => self.sanitizes = Some(false),
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => {
                *self = Self { sanitizes: Some(true), ..Self::new(all_channels) };
                return Ok(Some(PasswordRule::Clear));
            }
            [b'>', password @ ..] => {
                self.needs_no_password = false;
                return Ok(Some(PasswordRule::Add(password)));
            }
            [b'#', hash @ ..] => {
                let hash = parse_hash(hash)?;
                self.needs_no_password = false;
                return Ok(Some(PasswordRule::AddHash(hash)));
            }
            [b'<', password @ ..] => return Ok(Some(PasswordRule::Remove(password))),
            [b'!', hash @ ..] => return Ok(Some(PasswordRule::RemoveHash(parse_hash(hash)?))),
            [b'(', inside @ .., b')'] => self.add_selector(inside, all_channels)?,
            // Patterns check their spaces themselves, after other checks.
            [first, ..] if !b"~%&".contains(first) && has_spaces(word) => return Err(RuleError::Syntax),
            _ => self.selectors[0].apply(word)?,
        }
        Ok(None)
    }

    fn add_selector(&mut self, inside: &[u8], all_channels: bool) -> Result<(), RuleError> {
        if self.selectors.len() > SELECTORS_MAX {
            return Err(RuleError::ManySelectors);
        }
        let mut selector = Selector::new(all_channels);
        for word in inside.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
            selector.apply(word)?;
        }
        self.selectors.push(selector);
        Ok(())
    }

    /// Whether these rules refuse nothing.
    pub fn are_full(&self) -> bool {
        self.selectors.iter().any(Selector::is_full)
    }

    /// How many patterns of keys and channels all selectors have.
    pub fn patterns(&self) -> usize {
        self.selectors.iter().map(Selector::patterns).sum()
    }

    /// Rules that make these rules out of none. Each is a word, or a selector in parentheses. Passwords are not
    /// included.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let flags = self.flags().map(|flag| flag.as_bytes().to_vec());
        flags.chain(self.selector_rules(false)).collect()
    }

    /// The words that are about commands, keys or channels, as Redis shows them. Redis cannot read all of them again.
    pub fn told(&self) -> impl Iterator<Item = Vec<u8>> {
        self.selector_rules(true)
    }

    fn selector_rules(&self, told: bool) -> impl Iterator<Item = Vec<u8>> {
        let apart = self.selectors[1..].iter();
        let apart = apart.map(move |selector| [b"(", &*selector.rules(told).join(&b' '), b")"].concat());
        self.selectors[0].rules(told).into_iter().chain(apart)
    }

    /// The words that are not about commands, keys or channels.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let state = if self.is_on { "on" } else { "off" };
        let password = self.needs_no_password.then_some("nopass");
        let payload = self.sanitizes.map(|does| if does { "sanitize-payload" } else { "skip-sanitize-payload" });
        std::iter::once(state).chain(password).chain(payload)
    }

    /// The selectors, the one outside of parentheses first.
    pub fn selector_words(&self) -> impl ExactSizeIterator<Item = SelectorWords> {
        self.selectors.iter().map(|selector| SelectorWords {
            commands: selector.commands.rules().join(" ").into_bytes(),
            keys: selector.key_rules(true).join(&b' '),
            channels: selector.channel_rules().join(&b' '),
        })
    }
}

/// The bytes of a hash, from its 64 hexadecimal digits in lower case.
fn parse_hash(text: &[u8]) -> Result<Hash, RuleError> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(RuleError::BadHash),
    };
    if text.len() != HASH_DIGITS {
        return Err(RuleError::BadHash);
    }
    let mut hash = Hash::default();
    for (byte, pair) in hash.iter_mut().zip(text.as_chunks::<2>().0) {
        *byte = digit(&pair[0])? << 4 | digit(&pair[1])?;
    }
    Ok(hash)
}

/// The rules in `words`. A selector that is spread over several words is put together.
///
/// # Errors
/// A parenthesis is not closed: gives the word that opens it.
pub fn merged<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let (mut rules, mut open) = (Vec::new(), None::<(&[u8], Vec<u8>)>);
    for word in words {
        open = match open {
            None if word.starts_with(b"(") && !word.ends_with(b")") => Some((word, word.to_vec())),
            None => {
                rules.push(word.to_vec());
                None
            }
            Some((begin, mut selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
                if word.ends_with(b")") {
                    rules.push(selector);
                    None
                } else {
                    Some((begin, selector))
                }
            }
        };
    }
    open.map_or(Ok(rules), |(begin, _)| Err(begin))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(text: &str) -> Rules {
        let mut rules = Rules::default();
        for word in merged(text.split(' ').map(str::as_bytes)).expect("closed") {
            let _ = rules.apply(&word).expect("a rule");
        }
        rules
    }

    fn text(rules: &Rules) -> String {
        String::from_utf8(rules.words().join(&b' ')).expect("text")
    }

    #[test]
    fn what_can_be_read_again_is_not_always_what_redis_tells() {
        let rules = rules("%R~* %W~* ~a");
        assert_eq!(text(&rules), "off %RW~* ~a resetchannels -@all");
        assert_eq!(rules.told().collect::<Vec<_>>().join(&b' '), b"~* ~a resetchannels -@all");
    }

    #[test]
    fn rules_are_told_as_redis_tells_them() {
        for (said, told) in [
            ("", "off resetchannels -@all"),
            ("on nopass ~* &* +@all", "on nopass ~* &* +@all"),
            ("+@all -client +client|id +client|setname", "off resetchannels +@all -client +client|id +client|setname"),
            ("-@all +acl +config -config|set", "off resetchannels -@all +acl +config -config|set"),
            ("-@all +select|0 +acl", "off resetchannels -@all +select|0 +acl"),
            ("+memory|doctor +memory", "off resetchannels -@all +memory"),
            ("+@all -@string", "off resetchannels +@all -@string"),
            ("%R~foo %W~foo %RW~bar %R~x &c", "off ~foo ~bar %R~x resetchannels &c -@all"),
            (
                "+get ( +set ~a ) (&x)",
                "off resetchannels -@all +get (~a resetchannels -@all +set) (resetchannels &x -@all)",
            ),
            ("allkeys allchannels allcommands reset", "off sanitize-payload resetchannels -@all"),
            ("+get (+set) clearselectors", "off resetchannels -@all +get"),
        ] {
            assert_eq!(text(&rules(said)), told, "{said}");
            assert_eq!(text(&rules(told)), told);
        }
        for category in crate::table::Categories::NAMES {
            for said in [format!("+@all -@{category}"), format!("-@all +@{category}")] {
                assert_eq!(text(&rules(&said)), format!("off resetchannels {said}"));
            }
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_and_changes_nothing() {
        let mut user = rules("~a +get");
        for (word, error) in [
            ("foo", RuleError::Syntax),
            ("+foo", RuleError::Unknown),
            ("+", RuleError::Unknown),
            ("+|", RuleError::Unknown),
            ("+get|", RuleError::Syntax),
            ("+@foo", RuleError::Unknown),
            ("-select|0", RuleError::Unknown),
            ("+config|get|x", RuleError::FirstArgOfSubcommand),
            ("%X~a", RuleError::Syntax),
            ("%~a", RuleError::Syntax),
            ("%RR~a", RuleError::Syntax),
            ("%R", RuleError::Syntax),
            ("~a b", RuleError::Syntax),
            ("+select|a b", RuleError::Syntax),
            ("#12", RuleError::BadHash),
            ("(on)", RuleError::Syntax),
            ("((+get))", RuleError::Syntax),
            (")", RuleError::Syntax),
        ] {
            assert_eq!(user.apply(word.as_bytes()), Err(error), "{word}");
            assert_eq!(text(&user), "off ~a resetchannels -@all +get");
        }
        assert_eq!(rules("~*").apply(b"~a"), Err(RuleError::AllKeys));
        assert_eq!(rules("&*").apply(b"&a"), Err(RuleError::AllChannels));
        assert_eq!(merged(["on", "(~a +get", "x"].iter().map(|word| word.as_bytes())), Err(&b"(~a +get"[..]));
        let mut many = rules("+get");
        (0..SELECTORS_MAX).for_each(|_| assert_eq!(many.apply(b"(+get)"), Ok(None)));
        assert_eq!(many.apply(b"(+get)"), Err(RuleError::ManySelectors));
    }

    proptest! {
        #[test]
        fn any_words_are_rules_or_refused_and_what_is_told_makes_the_same(
            words in proptest::collection::vec(
                prop_oneof![
                    "[-+]@(all|read|write|keyspace|dangerous|admin|string|fast|slow|pubsub|connection)",
                    "[-+](get|set|config|config\\|get|client|client\\|id|debug|select|acl|xinfo\\|stream)",
                    "\\+select\\|[0-9]",
                    "(~|%R~|%W~|&)[a-c*]{0,3}",
                    "\\((~|%R~|&)[a-c]\\*? [-+]@(read|write|all) \\+get\\)",
                    "(on|off|nopass|reset|resetkeys|resetchannels|clearselectors|sanitize-payload)",
                    "[ -~]{0,12}",
                ],
                0..16,
            ),
        ) {
            let mut user = Rules::default();
            for word in &words {
                let _ = user.apply(word.as_bytes());
            }
            let mut again = Rules::default();
            for word in user.words() {
                prop_assert!(again.apply(&word).is_ok(), "{:?} in {:?}", String::from_utf8_lossy(&word), text(&user));
            }
            prop_assert_eq!(text(&again), text(&user));
            let allowed = |rules: &Rules| rules.selectors.iter().map(|one| one.commands.clone()).collect::<Vec<_>>();
            prop_assert_eq!(allowed(&again), allowed(&user));
        }

        #[test]
        fn any_bytes_are_a_rule_or_refused(word: Vec<u8>) {
            let _ = Rules::full().apply(&word);
        }
    }
}
