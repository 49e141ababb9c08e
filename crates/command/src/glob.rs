//! Patterns of `KEYS`, `SCAN MATCH` and `CONFIG GET`: `* ? [a-z] [^x] \c`, as Redis understands them.
//!
//! A client chooses both the pattern and the text, and so would choose the product of their lengths, which is what
//! backtracking may take. Here all positions of the pattern that the text may have reached are kept at once, one bit
//! each (an NFA; "shift-and", Baeza-Yates and Gonnet 1992). A byte of text costs one step for every 64 elements of the
//! pattern, whatever both are. A long text is matched in turns (S14).

use weir_io::Yield;

use crate::error::{Error, Outcome};

/// Longest pattern, in bytes. It limits a byte of text to at most 17 steps.
const PATTERN_BYTES_MAX: usize = 1024;

/// How many steps are done between two turns: some 100 us.
const TURN_STEPS: usize = 64 << 10;

/// `pattern`, if it is not too long.
pub fn checked(pattern: &[u8]) -> Outcome<&[u8]> {
    if pattern.len() <= PATTERN_BYTES_MAX {
        Ok(pattern)
    } else {
        Err(Error::new("ERR a pattern is at most 1024 bytes long"))
    }
}

/// A set of bytes.
type Bytes = [u64; 4];

const NO_BYTE: Bytes = [0; 4];
const ANY_BYTE: Bytes = [u64::MAX; 4];

fn insert(bytes: &mut Bytes, byte: u8) {
    bytes[usize::from(byte >> 6)] |= 1 << (byte & 63);
}

fn bytes_of(bytes: &Bytes) -> impl Iterator<Item = usize> {
    (0..4).flat_map(move |word| {
        let mut left = bytes[word];
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (bit < 64).then_some(word * 64 + bit)
        })
    })
}

/// A pattern that is ready to be compared with many texts.
pub struct Glob {
    /// How many elements take one byte each: all elements but the stars.
    elements: usize,
    /// How many words of 64 bits the positions 0 to `elements` take. Position n means that the first n elements are
    /// matched.
    words: usize,
    /// For each of the 256 bytes, the positions behind an element that takes it: `words` words each.
    takes: Vec<u64>,
    /// The positions with a star behind them, where any byte may be passed.
    stars: Vec<u64>,
}

/// The state of a comparison with a text.
struct Positions {
    now: Vec<u64>,
    /// The answer, if no further byte can change it.
    answer: Option<bool>,
}

impl Glob {
    /// Prepares `pattern`.
    pub fn new(pattern: &[u8]) -> Self {
        let (mut elements, mut star_places) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < pattern.len() {
            if pattern[at] == b'*' {
                star_places.push(elements.len());
                at += 1;
            } else {
                let (bytes, next) = element(pattern, at);
                elements.push(bytes);
                at = next;
            }
        }
        let words = elements.len() / 64 + 1;
        let (mut takes, mut stars, mut any) = (vec![0; 256 * words], vec![0; words], vec![0; words]);
        for (position, bytes) in elements.iter().enumerate() {
            let (word, bit) = (position / 64, 1 << (position % 64));
            if *bytes == ANY_BYTE {
                any[word] |= bit;
            } else {
                bytes_of(bytes).for_each(|byte| takes[byte * words + word] |= bit);
            }
        }
        takes.chunks_mut(words).flat_map(|takes| takes.iter_mut().zip(&any)).for_each(|(takes, any)| *takes |= any);
        star_places.into_iter().for_each(|position| stars[position / 64] |= 1 << (position % 64));
        Self { elements: elements.len(), words, takes, stars }
    }

    /// About how many steps it took to prepare this pattern and takes to match some names of Weir's own.
    pub fn steps_for_names(&self) -> usize {
        1024 * self.words
    }

    /// Whether `text` matches, checked in one piece: for texts whose length no client chooses.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut positions = self.begin();
        self.pass(&mut positions, text);
        self.end(&positions, text)
    }

    /// Whether `text` matches. If that takes long, others are served meanwhile; `turn` counts the steps since they were
    /// last served, over many texts.
    pub async fn matches_in_turns(&self, text: &[u8], turn: &mut Turn) -> bool {
        let mut positions = self.begin();
        let piece = (TURN_STEPS / 4 / self.words).max(1);
        for piece in text.chunks(piece) {
            self.pass(&mut positions, piece);
            turn.spend(piece.len() * self.words).await;
            if positions.answer.is_some() {
                break;
            }
        }
        // The cost of beginning.
        turn.spend(self.words).await;
        self.end(&positions, text)
    }

    fn begin(&self) -> Positions {
        let mut now = vec![0; self.words];
        now[0] = 1;
        Positions { now, answer: None }
    }

    /// Advances over `text`.
    fn pass(&self, positions: &mut Positions, text: &[u8]) {
        let last = (self.elements / 64, 1 << (self.elements % 64));
        let ends_in_star = self.stars[last.0] & last.1 != 0;
        for &byte in text {
            let takes = &self.takes[usize::from(byte) * self.words..][..self.words];
            let (mut carry, mut any) = (0, 0);
            for ((now, takes), stars) in positions.now.iter_mut().zip(takes).zip(&self.stars) {
                let taken = *now & takes;
                *now = taken << 1 | carry | *now & stars;
                carry = taken >> 63;
                any |= *now;
            }
            if any == 0 {
                positions.answer = Some(false);
                return;
            }
            if ends_in_star && positions.now[last.0] & last.1 != 0 {
                positions.answer = Some(true);
                return;
            }
        }
    }

    fn end(&self, positions: &Positions, text: &[u8]) -> bool {
        // Redis never enters its loop on an empty text, so there not even `*` matches it.
        if text.is_empty() {
            return self.elements == 0 && self.stars[0] == 0;
        }
        let reached = positions.now[self.elements / 64] >> (self.elements % 64) & 1 == 1;
        positions.answer.unwrap_or(reached)
    }
}

/// Counts steps, and lets others be served after each turn's worth of them.
pub struct Turn {
    steps: usize,
    yields: Yield,
}

impl Turn {
    /// A turn that begins now.
    pub fn new(yields: Yield) -> Self {
        Self { steps: 0, yields }
    }

    /// Counts `steps` steps that were done.
    pub async fn spend(&mut self, steps: usize) {
        self.steps += steps;
        if self.steps >= TURN_STEPS {
            self.steps = 0;
            self.yields.now().await;
        }
    }
}

/// The bytes that the element at `at` takes, and the position of the next element. The element must not be a star.
fn element(pattern: &[u8], at: usize) -> (Bytes, usize) {
    let literal = |byte, next| {
        let mut bytes = NO_BYTE;
        insert(&mut bytes, byte);
        (bytes, next)
    };
    match pattern[at] {
        b'?' => (ANY_BYTE, at + 1),
        b'[' => class(pattern, at + 1),
        b'\\' if at + 1 < pattern.len() => literal(pattern[at + 1], at + 2),
        byte => literal(byte, at + 1),
    }
}

/// A class without an end reaches to the pattern's end. Ranges compare signed bytes, as C's `char` does.
fn class(pattern: &[u8], mut at: usize) -> (Bytes, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut bytes = NO_BYTE;
    loop {
        match &pattern[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                insert(&mut bytes, *escaped);
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [start, b'-', end, ..] => {
                let (start, end) = (*start as i8, *end as i8);
                (start.min(end)..=start.max(end)).for_each(|byte| insert(&mut bytes, byte as u8));
                at += 3;
            }
            [literal, ..] => {
                insert(&mut bytes, *literal);
                at += 1;
            }
        }
    }
    if negated {
        bytes = bytes.map(|word: u64| !word);
    }
    (bytes, at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::polled;

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Glob::new(pattern).matches(text)
    }

    #[test]
    fn patterns_mean_what_they_mean_in_redis() {
        for (pattern, text, expected) in [
            ("*", "anything", true),
            ("*", "", false),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("a[\\]]b", "a]b", true),
            ("a[bc", "ab", true),
            ("a[", "ab", false),
            ("a[^", "ab", true),
            ("a\\", "a\\", true),
            ("*a*b", "xaxaxb", true),
            ("*a*bc", "xaxaxb", false),
            ("ab**", "ab", true),
            ("a*", "a", true),
            ("?*", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        // Bytes are signed, so this is not a range from 0x7f to 0x80, but one over all other bytes.
        assert!(matches(b"[\x7f-\x80]", b"a") && matches(b"[\x7f-\x80]", b"\xff"));
        assert!(!matches(b"[\xff-\x01]", b"a") && matches(b"[\xff-\x01]", b"\x00"));
    }

    #[test]
    fn long_patterns_go_over_words() {
        for len in [62, 63, 64, 65, 127, 128, 129, 1023] {
            let text = vec![b'a'; len];
            assert!(matches(&text, &text), "{len}");
            assert!(!matches(&text, &text[1..]) && !matches(&text[1..], &text), "{len}");
            let starred = [b"*", &text[..]].concat();
            assert!(matches(&starred, &vec![b'a'; 3 * len]), "{len}");
            assert!(!matches(&[&starred[..], b"b"].concat(), &vec![b'a'; 3 * len]), "{len}");
            assert!(matches(&[&text[..], b"*"].concat(), &vec![b'a'; 3 * len]), "{len}");
        }
    }

    /// What Redis' `stringmatchlen` does, step by step: recursive, and just as slow.
    fn backtrack(pattern: &[u8], text: &[u8]) -> bool {
        let Some(&first) = pattern.first() else { return text.is_empty() };
        if first == b'*' {
            return pattern.iter().all(|&byte| byte == b'*')
                || (0..text.len()).any(|from| backtrack(&pattern[1..], &text[from..]));
        }
        let Some((&byte, rest)) = text.split_first() else { return false };
        let mut at = 1;
        let is_taken = match first {
            b'?' => true,
            b'[' => {
                let negated = pattern.get(at) == Some(&b'^');
                at += usize::from(negated);
                let mut found = false;
                while let Some(&element) = pattern.get(at) {
                    if element == b'\\' && at + 1 < pattern.len() {
                        found |= pattern[at + 1] == byte;
                        at += 2;
                    } else if element == b']' {
                        break;
                    } else if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() {
                        let (low, high) = (element as i8, pattern[at + 2] as i8);
                        found |= low <= byte as i8 && byte as i8 <= high || high <= byte as i8 && byte as i8 <= low;
                        at += 3;
                    } else {
                        found |= element == byte;
                        at += 1;
                    }
                }
                at += 1;
                found != negated
            }
            b'\\' if pattern.len() > 1 => {
                at = 2;
                pattern[1] == byte
            }
            literal => literal == byte,
        };
        is_taken && backtrack(&pattern[at.min(pattern.len())..], rest)
    }

    /// As in Redis, only the empty pattern matches the empty text.
    fn oracle(pattern: &[u8], text: &[u8]) -> bool {
        if text.is_empty() { pattern.is_empty() } else { backtrack(pattern, text) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn any_pattern_means_what_it_means_in_redis(
            pattern in proptest::collection::vec(proptest::sample::select(&b"**??[]^-\\aabbc\x80\xff"[..]), 0..12),
            text in proptest::collection::vec(proptest::sample::select(&b"aabbc[]^-*?\\\x80\xff"[..]), 0..10),
        ) {
            prop_assert_eq!(matches(&pattern, &text), oracle(&pattern, &text));
        }

        #[test]
        fn turns_change_nothing(
            stars in 0_usize..4, letters in 1_usize..200, text in proptest::collection::vec(0_usize..60, 1..6),
        ) {
            let pattern = [&b"*".repeat(stars)[..], &b"ab".repeat(letters), b"*c"].concat();
            let text: Vec<u8> = text.iter().flat_map(|count| [b"ab".repeat(*count), b"c".to_vec()].concat()).collect();
            let glob = Glob::new(&pattern);
            prop_assert_eq!(polled::turns(glob.matches_in_turns(&text, &mut Turn { steps: TURN_STEPS - 1, yields: Yield::PLAIN })).1, glob.matches(&text));
        }
    }

    #[test]
    fn s14_the_longest_pattern_goes_through_the_longest_keys_in_turns() {
        let glob = Glob::new(&[b"*", &vec![b'a'; PATTERN_BYTES_MAX - 2][..], b"b"].concat());
        let key = vec![b'a'; 64 << 10];
        let mut turn = Turn::new(Yield::PLAIN);
        let (turns, found) = polled::turns(async {
            let mut found = false;
            for _ in 0..10 {
                found |= glob.matches_in_turns(&key, &mut turn).await;
            }
            found
        });
        // The work grows with steps, 17 for each byte of text, and not with the product of both lengths. And no turn
        // has more steps than its limit plus one piece.
        let steps = 10 * key.len() * 17;
        assert!(!found && (steps / TURN_STEPS / 2..=steps / TURN_STEPS + 1).contains(&turns), "{turns}");
    }
}
