//! Pipelines for which the form of every reply is known, and the judge who compares.
//!
//! Every value begins with the name of its key, numbers are asked for where only numbers come back, and an `ECHO` of a
//! number between any two commands tells where in the stream it is. So a reply that is missing, doubled, cut or in
//! another's place is noticed.

use std::io::Write;

use weir_io::Rng;

use super::strict::{Reply, parse};
use super::{Client, encode};

/// The form of the reply to a command, if it is no error.
#[derive(Clone, Debug)]
pub enum Expect {
    Exactly(Reply),
    Integer,
    /// The value of this key, or nothing.
    ValueOf(String),
    /// A part of that value, from its beginning on.
    FrontOf(String),
    /// The values of these keys, in this order.
    ValuesOf(Vec<String>),
    Bulk,
    BulkOrNull,
    StatusOrNull,
    /// An array of this many elements.
    Array(usize),
    Strings,
    ScanPage,
    Map,
    Text,
    /// An error with this code, and nothing else.
    Error(&'static str),
    /// The command was queued for `EXEC`.
    Queued,
    /// The answers of the queued commands, or nothing if a watched key has changed.
    Executed(Vec<Question>),
}

/// A command, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Question {
    pub words: Vec<Vec<u8>>,
    pub expect: Expect,
    /// The command asks the store, so it may be answered with an error.
    pub may_fail: bool,
    /// A part of its reply may be sent before all of it is known.
    pub streams: bool,
}

impl Question {
    fn new(words: &[&str], expect: Expect) -> Self {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Self { words, expect, may_fail: true, streams: false }
    }

    fn sure(words: &[&str], expect: Expect) -> Self {
        Self { may_fail: false, ..Self::new(words, expect) }
    }
}

fn key(rng: &mut Rng) -> String {
    match rng.below(150) {
        0 => "long0".into(),
        1 => "long1".into(),
        _ => format!("k{}", rng.below(12)),
    }
}

/// A value for `key`, whose length depends on the key.
fn value(rng: &mut Rng, key: &str) -> String {
    let len = match key {
        "long0" => 20_000,
        "long1" => 300_000,
        _ => [0, 1, 30, 200, 2000][rng.below(5) as usize],
    };
    format!("{key}:{}", "v".repeat(len))
}

fn ok() -> Expect {
    Expect::Exactly(Reply::Status("OK".into()))
}

/// A random command, and what must be answered.
pub fn question(rng: &mut Rng, number: u64) -> Question {
    let q = Question::new;
    let (k, l) = (key(rng), key(rng));
    let n = format!("n{}", rng.below(4));
    let (b, c) = (format!("b{}", rng.below(4)), format!("b{}", rng.below(4)));
    let small = rng.below(300).to_string();
    match rng.below(60) {
        0..=9 => {
            let id = format!("id-{number}");
            let expect = Expect::Exactly(Reply::Bulk(id.clone().into_bytes()));
            Question::sure(&[["ECHO", "PING"][rng.below(2) as usize], &id], expect)
        }
        10..=17 => q(&["SET", &k, &value(rng, &k)], ok()),
        18..=23 => q(&["GET", &k], Expect::ValueOf(k.clone())),
        24 | 25 => {
            let keys: Vec<String> = (0..=rng.below(12)).map(|_| key(rng)).collect();
            let mut words = vec!["MGET"];
            words.extend(keys.iter().map(String::as_str));
            Question { streams: true, ..q(&words, Expect::ValuesOf(keys.clone())) }
        }
        26 => q(&["MSET", &k, &value(rng, &k), &l, &value(rng, &l)], ok()),
        27 => q(&["MSETNX", &k, &value(rng, &k), &l, &value(rng, &l)], Expect::Integer),
        28 => q(&["SET", &k, &value(rng, &k), "NX", "EX", "1000"], Expect::StatusOrNull),
        29 => q(&["SET", &k, &value(rng, &k), "GET"], Expect::ValueOf(k.clone())),
        30 => q(&["SETEX", &k, "1000", &value(rng, &k)], ok()),
        31 | 32 => q(&[["INCR", "DECR"][rng.below(2) as usize], &n], Expect::Integer),
        33 => q(&["INCRBYFLOAT", &format!("f{n}"), "1.5"], Expect::Bulk),
        34 => q(&["APPEND", &l, ""], Expect::Integer),
        35 => q(&[["STRLEN", "TTL", "EXISTS", "PERSIST"][rng.below(4) as usize], &k], Expect::Integer),
        36 => q(&["GETRANGE", &k, "0", &small], Expect::FrontOf(k.clone())),
        37 => q(&[["GETDEL", "GETEX"][rng.below(2) as usize], &k], Expect::ValueOf(k.clone())),
        38 => q(&["GETSET", &k, &value(rng, &k)], Expect::ValueOf(k.clone())),
        39 => q(&["DEL", &k, &l, "none"], Expect::Integer),
        40 => q(&["SETBIT", &b, &small, "1"], Expect::Integer),
        41 => q(&["BITOP", "XOR", "btarget", &b, &c], Expect::Integer),
        42 => q(&["BITCOUNT", &b], Expect::Integer),
        43 => {
            q(&["BITFIELD", &b, "GET", "u8", "0", "INCRBY", "u8", &small, "1", "SET", "i5", "3", "1"], Expect::Array(3))
        }
        44 => q(&["LCS", &b, &c, "LEN"], Expect::Integer),
        45 => q(&["EXPIRE", &k, "1000"], Expect::Integer),
        46 => q(&["SCAN", "0", "MATCH", "*k*", "COUNT", &(1 + rng.below(50)).to_string()], Expect::ScanPage),
        47 => q(&["KEYS", "k[0-5]*"], Expect::Strings),
        48 => q(&["RANDOMKEY"], Expect::BulkOrNull),
        49 => q(&["COPY", &b, &format!("m{b}"), "REPLACE"], Expect::Integer),
        50 => q(&["DUMP", &b], Expect::BulkOrNull),
        51 => match rng.below(3) {
            0 => q(&["INFO", "keyspace"], Expect::Text),
            1 => Question::sure(&["COMMAND", "COUNT"], Expect::Integer),
            _ => Question::sure(&["CLIENT", "ID"], Expect::Integer),
        },
        52 => Question::sure(&["SELECT", &rng.below(2).to_string()], ok()),
        53 => Question::sure(&["NOSUCH", &k], Expect::Error("ERR")),
        54 => Question::sure(&["GET"], Expect::Error("ERR")),
        55 => Question::sure(&["HELLO", &(2 + rng.below(2)).to_string()], Expect::Map),
        56 => Question::sure(&["CLIENT", "REPLY", ["ON", "OFF", "SKIP"][rng.below(3) as usize]], ok()),
        57 => match rng.below(6) {
            0 | 1 => Question::sure(&["MULTI"], ok()),
            2 => q(&["EXEC"], Expect::Executed(Vec::new())),
            3 => Question::sure(&["DISCARD"], ok()),
            4 => Question::sure(&["UNWATCH"], ok()),
            _ => q(&["WATCH", &k], ok()),
        },
        58 => q(&["DBSIZE"], Expect::Integer),
        _ => rarely(rng),
    }
}

/// A command that takes long.
fn rarely(rng: &mut Rng) -> Question {
    let q = Question::new;
    match rng.below(40) {
        0 => q(&["FLUSHALL"], ok()),
        1 => q(&["FLUSHDB"], ok()),
        2 => {
            let pairs: Vec<String> = (0..1200).flat_map(|i| [format!("w{i}"), format!("w{i}:")]).collect();
            let words: Vec<&str> = std::iter::once("MSET").chain(pairs.iter().map(String::as_str)).collect();
            q(&words, ok())
        }
        3 => {
            let keys: Vec<String> = (0..1200).map(|i| format!("w{i}")).collect();
            let words: Vec<&str> = std::iter::once("DEL").chain(keys.iter().map(String::as_str)).collect();
            q(&words, Expect::Integer)
        }
        4 | 5 => {
            let names: Vec<&str> = ["COMMAND", "INFO"].into_iter().chain(std::iter::repeat_n("get", 4000)).collect();
            Question { streams: true, ..Question::sure(&names, Expect::Array(4000)) }
        }
        6..=12 => {
            // Longer than what is written at once: a part of it was sent when a later read fails.
            let keys: Vec<String> = (0..6).flat_map(|_| ["long1".to_owned(), key(rng)]).collect();
            let words: Vec<&str> = std::iter::once("MGET").chain(keys.iter().map(String::as_str)).collect();
            Question { streams: true, ..q(&words, Expect::ValuesOf(keys.clone())) }
        }
        _ => q(&["RENAME", &format!("b{}", rng.below(4)), "mb"], ok()),
    }
}

/// Counts of what came back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub pipelines: u64,
    pub replies: u64,
    pub errors: u64,
    /// Connections closed between two replies, or within a reply that cannot be completed.
    pub closed: u64,
    pub cut: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.pipelines += other.pipelines;
        self.replies += other.replies;
        self.errors += other.errors;
        self.closed += other.closed;
        self.cut += other.cut;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    On,
    Off,
    SkipNext,
    SkipThis,
}

/// The state of a connection, as the client knows it.
pub struct Judge {
    pub resp3: bool,
    /// The commands queued since `MULTI`.
    queued: Option<Vec<Question>>,
    /// Whether some command could not be queued.
    is_spoiled: bool,
    mode: Mode,
    /// Messages that came without a request.
    pub pushes: Vec<Vec<Reply>>,
    /// Whether the tenant may be dropped at any time; then the connection is closed.
    may_close: bool,
}

const END: &str = "<the-end-of-this-pipeline>";

impl Judge {
    pub fn new(may_close: bool) -> Self {
        Self { resp3: false, queued: None, is_spoiled: false, mode: Mode::On, pushes: Vec::new(), may_close }
    }

    /// Asks `questions` together. Returns whether the connection still exists.
    pub fn ask(&mut self, client: &mut Client, mut questions: Vec<Question>, tally: &mut Tally) -> bool {
        // This is answered, whatever was sent before.
        questions.push(Question::sure(&["DISCARD"], ok()));
        questions.push(Question::sure(&["CLIENT", "REPLY", "ON"], ok()));
        let mut bytes: Vec<u8> = questions.iter().flat_map(|question| encode(&question.words)).collect();
        bytes.extend(encode(&["ECHO", END]));
        let marker = format!("${}\r\n{END}\r\n", END.len());
        let said = if bytes.len() < 32 << 10 {
            // A peer that has closed is noticed by reading.
            let _ = client.stream.write_all(&bytes);
            client.until(marker.as_bytes())
        } else {
            // A client that does not read while it writes may end up waiting for itself.
            let mut stream = client.stream.try_clone().expect("a socket");
            std::thread::scope(|scope| {
                scope.spawn(move || drop(stream.write_all(&bytes)));
                client.until(marker.as_bytes())
            })
        };
        tally.pipelines += 1;
        let mut rest = &said[..];
        for (index, question) in questions.iter().enumerate() {
            let told = |rest: &[u8], why: &str| {
                let before = questions[index.saturating_sub(6)..index].iter().map(|before| shown(&before.words));
                let rest = String::from_utf8_lossy(&rest[..rest.len().min(300)]).into_owned();
                panic!(
                    "{why}\n{}\nbehind {:#?}\nis answered {rest:?}",
                    shown(&question.words),
                    before.collect::<Vec<_>>()
                );
            };
            rest = self.take_pushes(rest);
            let Some(expect) = self.expected(question) else { continue };
            if rest.is_empty() && client.is_closed && self.may_close {
                tally.closed += 1;
                return false;
            }
            match parse(rest, self.resp3) {
                Err(why) => told(rest, &why),
                // A peer that closes with unread bytes of ours resets the connection: replies in front of the one that
                // was broken off may be lost on the way.
                Ok(None) if client.is_closed && (streams(&expect) || questions[index..].iter().any(|q| q.streams)) => {
                    tally.cut += 1;
                    return false;
                }
                Ok(None) if client.is_closed => told(rest, "the connection was closed before the end of the reply"),
                Ok(None) => told(rest, "the rest of the reply does not come"),
                Ok(Some((reply, len))) => {
                    tally.replies += 1;
                    if let Reply::Error(text) = &reply {
                        tally.errors += 1;
                        let is_expected = matches!(expect, Expect::Error(code) if text.starts_with(code));
                        if self.may_close && text.starts_with("NOPERM this tenant does not exist") {
                            assert!(
                                len == rest.len() && client.is_closed,
                                "nothing follows: {:?}",
                                shown(&question.words)
                            );
                            tally.closed += 1;
                            return false;
                        }
                        if !is_expected && !question.may_fail {
                            told(rest, "an error where nothing can fail");
                        }
                        if matches!(expect, Expect::Queued) {
                            self.is_spoiled = true;
                        }
                    } else if !fits(&reply, &expect) {
                        told(rest, &format!("that is not {:?}", shown_expect(&expect)));
                    }
                    rest = &rest[len..];
                }
            }
        }
        rest = self.take_pushes(rest);
        assert!(rest.is_empty(), "replies that nobody asked for: {:?}", String::from_utf8_lossy(rest));
        assert!(!client.is_closed || self.may_close, "closed without a reason");
        !client.is_closed
    }

    /// What follows the complete messages at the beginning of `rest`.
    fn take_pushes<'a>(&mut self, mut rest: &'a [u8]) -> &'a [u8] {
        while let Ok(Some((Reply::Push(push), len))) = parse(rest, self.resp3) {
            self.pushes.push(push);
            rest = &rest[len..];
        }
        rest
    }

    /// The form of the next command's reply; `None` if there is none.
    fn expected(&mut self, question: &Question) -> Option<Expect> {
        if self.mode == Mode::SkipNext {
            self.mode = Mode::SkipThis;
        }
        let expect = self.effect(question);
        let is_answered = self.mode == Mode::On;
        if self.mode == Mode::SkipThis {
            self.mode = Mode::On;
        }
        is_answered.then_some(expect)
    }

    fn effect(&mut self, question: &Question) -> Expect {
        let was_open = self.queued.is_some();
        let refused = Expect::Error("ERR");
        match &question.words[0][..] {
            b"MULTI" if was_open => return refused,
            b"MULTI" => (self.queued, self.is_spoiled) = (Some(Vec::new()), false),
            b"EXEC" | b"DISCARD" if !was_open => return refused,
            b"DISCARD" => self.queued = None,
            b"EXEC" => match self.queued.take() {
                Some(_) if self.is_spoiled => return Expect::Error("EXECABORT"),
                queued => return Expect::Executed(queued.unwrap_or_default()),
            },
            b"WATCH" if was_open => return refused,
            b"WATCH" => {}
            _ if was_open => {
                let is_client_reply = question.words[0] == b"CLIENT" && question.words[1] == b"REPLY";
                // An unknown command, or one with the wrong number of arguments, is refused as well.
                if matches!(question.expect, Expect::Error(_)) || question.words[0] == b"HELLO" || is_client_reply {
                    self.is_spoiled = true;
                    return refused;
                }
                self.queued.iter_mut().for_each(|queued| queued.push(question.clone()));
                return Expect::Queued;
            }
            b"HELLO" => self.resp3 = question.words[1] == b"3",
            b"CLIENT" if question.words[1] == b"REPLY" => match &question.words[2][..] {
                b"ON" => self.mode = Mode::On,
                b"OFF" => self.mode = Mode::Off,
                _ if self.mode != Mode::Off => self.mode = Mode::SkipNext,
                _ => {}
            },
            _ => {}
        }
        question.expect.clone()
    }
}

/// Whether something queued streams: then the reply to `EXEC` does, too.
fn streams(expect: &Expect) -> bool {
    matches!(expect, Expect::Executed(questions) if questions.iter().any(|question| question.streams))
}

fn fits(reply: &Reply, expect: &Expect) -> bool {
    if reply.has_errors() && !matches!(expect, Expect::Executed(_)) {
        return false;
    }
    let is_value = |reply: &Reply, key: &str| match reply {
        Reply::Null => true,
        Reply::Bulk(value) => value.starts_with(format!("{key}:").as_bytes()) || value.is_empty(),
        _ => false,
    };
    let are_strings = |replies: &[Reply]| replies.iter().all(|reply| matches!(reply, Reply::Bulk(_)));
    match expect {
        Expect::Exactly(expected) => reply == expected,
        Expect::Integer => matches!(reply, Reply::Integer(_)),
        Expect::ValueOf(key) => is_value(reply, key),
        Expect::FrontOf(key) => {
            matches!(reply, Reply::Bulk(part) if part.iter().zip(format!("{key}:").as_bytes()).all(|(a, b)| a == b))
        }
        Expect::ValuesOf(keys) => matches!(reply, Reply::Array(values)
            if values.len() == keys.len() && values.iter().zip(keys).all(|(value, key)| is_value(value, key))),
        Expect::Bulk => matches!(reply, Reply::Bulk(_)),
        Expect::BulkOrNull => matches!(reply, Reply::Bulk(_) | Reply::Null),
        Expect::StatusOrNull => matches!(reply, Reply::Status(_) | Reply::Null),
        Expect::Array(len) => matches!(reply, Reply::Array(elements) if elements.len() == *len),
        Expect::Strings => matches!(reply, Reply::Array(elements) if are_strings(elements)),
        Expect::ScanPage => matches!(reply, Reply::Array(page)
            if matches!(&page[..], [Reply::Bulk(_), Reply::Array(keys)] if are_strings(keys))),
        Expect::Map => matches!(reply, Reply::Array(_) | Reply::Map(_)),
        Expect::Text => matches!(reply, Reply::Bulk(_) | Reply::Text(_)),
        Expect::Error(_) => false,
        Expect::Queued => *reply == Reply::Status("QUEUED".into()),
        Expect::Executed(questions) => match reply {
            // A watched key has changed.
            Reply::Null => true,
            Reply::Array(replies) => {
                let fits_one = |(reply, question): (&Reply, &Question)| match reply {
                    Reply::Error(_) => question.may_fail,
                    reply => fits(reply, &question.expect),
                };
                replies.len() == questions.len() && replies.iter().zip(questions).all(fits_one)
            }
            _ => false,
        },
    }
}

fn shown(words: &[Vec<u8>]) -> String {
    let short = |word: &Vec<u8>| String::from_utf8_lossy(&word[..word.len().min(20)]).into_owned();
    words.iter().take(8).map(short).collect::<Vec<_>>().join(" ")
}

fn shown_expect(expect: &Expect) -> String {
    format!("{expect:?}").chars().take(200).collect()
}
