//! Fields that expire, compared with a map of fields: packed and spread, whatever happens to the row in between. The
//! numbers in its head agree with its parts at any time.

use std::collections::BTreeMap;

use weir_command::rdb::file::Writer;
use weir_command::rdb::kind;
use weir_command::snapshot::push_row;
use weir_command::{Draft, FieldSweep, Transaction};
use weir_model::parts::fields::{DEADLINE_SPACE, MORTAL_SPACE, take_deadline};
use weir_model::parts::{MortalFields, Part};

use super::*;

/// Value and deadline of each field.
type Fields = BTreeMap<String, (String, Option<u64>)>;

/// What a key has.
#[derive(Clone, Default)]
struct Hash {
    fields: Fields,
    row_ms: Option<u64>,
}

impl Hash {
    fn living(&self, now_ms: u64) -> Fields {
        let lives = |at: Option<u64>| at.is_none_or(|at| at > now_ms);
        let fields = self.fields.iter().filter(|(_, (_, at))| lives(self.row_ms) && lives(*at));
        fields.map(|(name, field)| (name.clone(), field.clone())).collect()
    }
}

#[derive(Default)]
struct Model(BTreeMap<String, Hash>);

impl Model {
    /// Removes what has expired, for good.
    fn pass(&mut self, now_ms: u64) {
        for hash in self.0.values_mut() {
            hash.fields = hash.living(now_ms);
        }
        self.0.retain(|_, hash| !hash.fields.is_empty());
    }

    /// The answer to a command on one field of the row of `key`.
    fn ask(&mut self, words: &[&str], now_ms: u64) -> String {
        self.pass(now_ms);
        let key = words[1].to_owned();
        let reply = self.answer(words, &key, now_ms);
        self.pass(now_ms);
        reply
    }

    fn answer(&mut self, words: &[&str], key: &str, now_ms: u64) -> String {
        let integer = |number: i64| format!(":{number}\r\n");
        let one = |number: i64| format!("*1\r\n:{number}\r\n");
        let bulk = |value: &str| format!("${}\r\n{value}\r\n", value.len());
        match words {
            ["HSET", _, field, value] => {
                let fields = &mut self.0.entry(key.into()).or_default().fields;
                integer(i64::from(fields.insert((*field).into(), ((*value).into(), None)).is_none()))
            }
            ["HSETNX", _, field, value] => {
                let fields = &mut self.0.entry(key.into()).or_default().fields;
                let is_new = !fields.contains_key(*field);
                if is_new {
                    fields.insert((*field).into(), ((*value).into(), None));
                }
                integer(i64::from(is_new))
            }
            ["HINCRBY", _, field, by] => {
                let fields = &mut self.0.entry(key.into()).or_default().fields;
                let (value, at) = fields.get(*field).cloned().unwrap_or_else(|| ("0".into(), None));
                let Ok(old) = value.parse::<i64>() else { return "-ERR hash value is not an integer\r\n".into() };
                let sum = old + by.parse::<i64>().expect("a number");
                fields.insert((*field).into(), (sum.to_string(), at));
                integer(sum)
            }
            ["HDEL", _, field] => {
                let gone = self.0.get_mut(key).and_then(|hash| hash.fields.remove(*field));
                integer(i64::from(gone.is_some()))
            }
            ["HGETDEL", _, _, _, field] => {
                let gone = self.0.get_mut(key).and_then(|hash| hash.fields.remove(*field));
                format!("*1\r\n{}", gone.map_or("$-1\r\n".into(), |(value, _)| bulk(&value)))
            }
            ["HPEXPIRE", _, millis, "FIELDS", _, field] => self.expire(key, field, now_ms, millis, ""),
            ["HPEXPIRE", _, millis, condition, "FIELDS", _, field] => {
                self.expire(key, field, now_ms, millis, condition)
            }
            ["HPERSIST", _, _, _, field] => {
                let field = self.0.get_mut(key).and_then(|hash| hash.fields.get_mut(*field));
                one(field.map_or(-2, |(_, at)| if at.take().is_some() { 1 } else { -1 }))
            }
            ["HPEXPIRETIME", _, _, _, field] => {
                let field = self.0.get(key).and_then(|hash| hash.fields.get(*field));
                one(field.map_or(-2, |(_, at)| at.map_or(-1, |at| at as i64)))
            }
            ["HGET", _, field] => {
                let field = self.0.get(key).and_then(|hash| hash.fields.get(*field));
                field.map_or("$-1\r\n".into(), |(value, _)| bulk(value))
            }
            ["HLEN", _] => integer(self.0.get(key).map_or(0, |hash| hash.fields.len()) as i64),
            ["EXISTS", _] => integer(i64::from(self.0.contains_key(key))),
            ["PEXPIRETIME", _] => integer(self.0.get(key).map_or(-2, |hash| hash.row_ms.map_or(-1, |at| at as i64))),
            ["PEXPIRE", _, millis] => {
                let at = now_ms.saturating_add_signed(millis.parse().expect("a number"));
                integer(self.0.get_mut(key).map_or(0, |hash| {
                    hash.row_ms = Some(at);
                    1
                }))
            }
            ["PERSIST", _] => {
                let had = self.0.get_mut(key).and_then(|hash| hash.row_ms.take());
                integer(i64::from(had.is_some()))
            }
            ["COPY", _, to, "REPLACE"] => {
                let copy = self.0.get(key).cloned();
                let done = copy.is_some();
                self.0.extend(copy.map(|hash| ((*to).to_owned(), hash)));
                integer(i64::from(done))
            }
            ["RENAME", _, to] => match self.0.remove(key) {
                None => "-ERR no such key\r\n".into(),
                Some(hash) => {
                    self.0.insert((*to).into(), hash);
                    "+OK\r\n".into()
                }
            },
            ["DEL", _] => integer(i64::from(self.0.remove(key).is_some())),
            other => unreachable!("{other:?}"),
        }
    }

    fn expire(&mut self, key: &str, field: &str, now_ms: u64, millis: &str, condition: &str) -> String {
        let new = now_ms + millis.parse::<u64>().expect("a number");
        let Some((_, at)) = self.0.get_mut(key).and_then(|hash| hash.fields.get_mut(field)) else {
            return "*1\r\n:-2\r\n".into();
        };
        let is_met = match condition {
            "NX" => at.is_none(),
            "XX" => at.is_some(),
            "GT" => at.is_some_and(|at| new > at),
            "LT" => at.is_none_or(|at| new < at),
            _ => true,
        };
        if is_met {
            *at = Some(new);
        }
        format!(
            "*1\r\n:{}\r\n",
            if !is_met {
                0
            } else if new <= now_ms {
                2
            } else {
                1
            }
        )
    }
}

/// Checks that the parts of the row of `key` agree with its head.
fn check(store: &Store, key: &str) {
    let Some(head) = store.map.get(&StoredKey::new(0, key.as_bytes())[..]).and_then(Row::head) else { return };
    let (mut count, mut bytes, mut deadlines, mut again) = (0, 0, Vec::new(), Vec::new());
    let mut field = |name: &[u8], value: &[u8], at: Option<u64>| {
        count += 1;
        bytes += (name.len() + value.len()) as u64;
        again.extend(at.map(|at| (at, name.to_vec())));
    };
    match &head.packed {
        Some(packed) => packed.iter().for_each(|part| field(part.subkey, part.value, part.expire_at_ms)),
        None => {
            let life = Life::new(head.version);
            for (stored, row) in store.map.range(life.space(0).0..life.space(255).1) {
                let part = Part::parse(stored).expect("a part");
                let value = row.value().expect("a value");
                match part.space {
                    0 => field(&part.subkey[4..], value, None),
                    MORTAL_SPACE => {
                        let (at, value) = take_deadline(value).expect("a deadline");
                        field(&part.subkey[4..], value, Some(at));
                    }
                    DEADLINE_SPACE => {
                        let (at, placed) = take_deadline(part.subkey).expect("a deadline");
                        deadlines.push((at, placed[4..].to_vec()));
                    }
                    _ => panic!("no space of a hash"),
                }
            }
            deadlines.sort();
            again.sort();
            assert_eq!(deadlines, again, "the deadlines of {key}");
        }
    }
    assert_eq!((head.count, head.bytes), (count, bytes), "{key}");
    let ends = again.iter().map(|(at, _)| *at).min().zip(again.iter().map(|(at, _)| *at).max());
    let mortal = ends.map(|(first_ms, last_ms)| MortalFields { count: again.len() as u64, first_ms, last_ms });
    assert_eq!(head.mortal(), mortal, "{key}");
}

/// Sweeps as a partition does when a hash has a field that is due.
fn sweep(store: &mut Store, key: &str) {
    let now_ms = NOW_MS + store.later_ms;
    let stored = StoredKey::new(0, key.as_bytes());
    let first = store.map.get(&stored[..]).and_then(Row::head).and_then(Head::mortal).map(|mortal| mortal.first_ms);
    let Some(first_ms) = first.filter(|&at| at <= now_ms) else { return };
    let draft: Draft = done(FieldSweep::new(&stored, first_ms, now_ms).run(store)).expect("it is swept");
    assert!(!draft.batch().is_empty());
    store.apply(draft.batch());
}

#[test]
fn fields_that_were_taken_out_are_not_passed_again() {
    let mut store = Store::default();
    for field in 0..400 {
        store.ask(&format!("HSET h field-{field} v"));
        store.ask(&format!("HPEXPIREAT h {} FIELDS 1 field-{field}", NOW_MS + 1_000 + field));
    }
    store.ask("HSET h stays v");
    store.later_ms = 1_199;
    for _ in 0..10 {
        sweep(&mut store, "h");
    }
    assert_eq!(store.ask("HLEN h"), ":201\r\n");
    assert!(store.dead.len() >= 200, "the fields have left tombstones");
    store.dead_met.store(0, Ordering::Relaxed);
    store.ask("HSET h field-399 v");
    store.ask(&format!("HPEXPIREAT h {} FIELDS 1 field-398", NOW_MS + 2_000));
    store.ask(&format!("HPEXPIREAT h {} FIELDS 1 stays", NOW_MS + 3_000));
    store.later_ms = 1_201;
    assert_eq!(store.ask("HLEN h"), ":199\r\n");
    sweep(&mut store, "h");
    assert_eq!(store.ask("HLEN h"), ":199\r\n");
    let met = store.dead_met.load(Ordering::Relaxed);
    assert!(met < 10, "{met} tombstones were passed");
}

/// A partition runs the same sweep again and again, as long as there are fields of the deadline that is due.
#[test]
fn fields_of_one_deadline_are_swept_without_passing_those_that_have_gone() {
    const FIELDS: u64 = 1280;
    let mut store = Store::default();
    for field in 0..FIELDS {
        store.ask(&format!("HSET h field-{field} v"));
        store.ask(&format!("HPEXPIREAT h {} FIELDS 1 field-{field}", NOW_MS + 1_000));
    }
    store.ask("HSET h stays v later v");
    store.ask(&format!("HPEXPIREAT h {} FIELDS 1 later", NOW_MS + 9_000));
    store.later_ms = 1_001;
    let stored = StoredKey::new(0, b"h");
    let mut sweep = FieldSweep::new(&stored, NOW_MS + 1_000, NOW_MS + 1_001);
    store.dead_met.store(0, Ordering::Relaxed);
    let mut steps = 0;
    while !sweep.is_done() {
        let draft: Draft = done(sweep.run(&store)).expect("it is swept");
        store.apply(draft.batch());
        check(&store, "h");
        steps += 1;
        if steps == 2 {
            // New fields may be in front of the place where the sweep is, or behind it.
            let met = store.dead_met.load(Ordering::Relaxed);
            store.later_ms = 0;
            for field in 0..8 {
                store.ask(&format!("HSET h new-{field} v"));
                store.ask(&format!("HPEXPIREAT h {} FIELDS 1 new-{field}", NOW_MS + 1_000));
            }
            store.later_ms = 1_001;
            store.dead_met.store(met, Ordering::Relaxed);
        }
    }
    assert!((20..24).contains(&steps), "{steps} steps");
    assert_eq!(store.ask("HLEN h"), ":2\r\n");
    let met = store.dead_met.load(Ordering::Relaxed);
    assert!(met < 5 * FIELDS, "{met} tombstones were passed in {steps} steps");
}

/// The fields and values of a reply, in the order of fields.
fn pairs(reply: &str) -> BTreeMap<String, String> {
    let words: Vec<&str> = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$', ':'])).collect();
    let words = &words[..words.len() - 1];
    words.chunks(2).map(|pair| (pair[0].into(), pair[1].into())).collect()
}

/// All fields, read in steps.
fn scanned(store: &mut Store, key: &str) -> BTreeMap<String, String> {
    let (mut found, mut cursor) = (BTreeMap::new(), "0".to_owned());
    loop {
        let reply = store.ask(&format!("HSCAN {key} {cursor} COUNT 7"));
        let (head, rest) = reply.split_once("\r\n*").expect("two elements");
        cursor = head.rsplit("\r\n").next().expect("a number").into();
        found.extend(pairs(&format!("*{rest}")));
        if cursor == "0" {
            return found;
        }
    }
}

fn random_words(rng: &mut Rng) -> Vec<String> {
    let one = |rng: &mut Rng, words: &[&str]| words[rng.below(words.len() as u64) as usize].to_owned();
    let key = one(rng, &["a", "a", "b"]);
    let field = format!("f{}", rng.below(9));
    let millis = one(rng, &["0", "1", "5", "20", "20", "300"]);
    let fields = |field: String| ["FIELDS".into(), "1".into(), field];
    let mut words = vec![key];
    let name = match rng.below(26) {
        0..=4 => {
            words.extend([field, rng.below(100).to_string()]);
            "HSET"
        }
        5 => {
            words.extend([field, "new".into()]);
            "HSETNX"
        }
        6 | 7 => {
            words.extend([field, "3".into()]);
            "HINCRBY"
        }
        8 => {
            words.push(field);
            "HDEL"
        }
        9 => {
            words.extend(fields(field));
            "HGETDEL"
        }
        10..=14 => {
            words.push(millis);
            words.extend(Some(one(rng, &["", "", "NX", "XX", "GT", "LT"])).filter(|word| !word.is_empty()));
            words.extend(fields(field));
            "HPEXPIRE"
        }
        15 => {
            words.extend(fields(field));
            "HPERSIST"
        }
        16 => {
            words.extend(fields(field));
            "HPEXPIRETIME"
        }
        17 => {
            words.push(field);
            "HGET"
        }
        18 => "HLEN",
        19 => "EXISTS",
        20 => "PEXPIRETIME",
        21 => {
            words.push(one(rng, &["10", "400"]));
            "PEXPIRE"
        }
        22 => "PERSIST",
        23 => {
            words.extend([one(rng, &["a", "b"]), "REPLACE".into()]);
            if words[0] == words[1] {
                words.truncate(1);
                "HLEN"
            } else {
                "COPY"
            }
        }
        24 => {
            words.push(one(rng, &["a", "b"]));
            "RENAME"
        }
        _ => "DEL",
    };
    words.insert(0, name.into());
    words
}

#[test]
fn fields_expire_as_those_of_a_map() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let (mut store, mut model) = (Store::default(), Model::default());
        for step in 0..250 {
            store.later_ms += rng.below(4) * rng.below(4);
            let now_ms = NOW_MS + store.later_ms;
            // Half of the hashes are spread: such a field stays, or goes by its own chance.
            if seed % 2 == 0 && rng.chance(0.05) {
                let long = "x".repeat(3000);
                for key in ["a", "b"] {
                    store.ask(&format!("HSET {key} long {long}"));
                    model.ask(&["HSET", key, "long", &long], now_ms);
                    let kept = rng.chance(0.4);
                    let words = if kept { format!("HPERSIST {key} FIELDS 1 long") } else { format!("HDEL {key} long") };
                    store.ask(&words);
                    model.ask(&words.split(' ').collect::<Vec<_>>(), now_ms);
                }
            }
            let words = random_words(&mut rng);
            let line = words.join(" ");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let expected = if words[0] == "RENAME" && words[1] == words[2] {
                model.pass(now_ms);
                if model.0.contains_key(words[1]) { "+OK\r\n".into() } else { "-ERR no such key\r\n".into() }
            } else {
                model.ask(&words, now_ms)
            };
            assert_eq!(store.ask(&line), expected, "seed {seed}, step {step}: {line}");
            model.pass(now_ms);
            for key in ["a", "b"] {
                check(&store, key);
                let fields = model.0.get(key).map(|hash| hash.living(now_ms)).unwrap_or_default();
                let values: BTreeMap<String, String> =
                    fields.iter().map(|(name, (value, _))| (name.clone(), value.clone())).collect();
                let context = format!("seed {seed}, step {step}: {key} after {line}");
                let all = store.ask(&format!("HGETALL {key}"));
                assert!(all.starts_with(&format!("*{}\r\n", values.len() * 2)), "{context}: {all}");
                assert_eq!(pairs(&all), values, "{context}");
                assert_eq!(scanned(&mut store, key), values, "{context}");
                let sampled = store.ask(&format!("HRANDFIELD {key} 100 WITHVALUES"));
                assert_eq!(pairs(&sampled), values, "{context}");
                assert_eq!(store.ask(&format!("HLEN {key}")), format!(":{}\r\n", values.len()), "{context}");
                assert_eq!(store.ask(&format!("EXISTS {key}")), format!(":{}\r\n", i32::from(!values.is_empty())));
                if rng.chance(0.2) {
                    sweep(&mut store, key);
                    check(&store, key);
                }
            }
        }
        // In the end, nothing is left of the expired fields.
        store.later_ms += 1000;
        model.pass(NOW_MS + store.later_ms);
        for key in ["a", "b"] {
            for _ in 0..9 {
                sweep(&mut store, key);
            }
            let living = model.0.get(key).map_or(0, |hash| hash.fields.len()) as u64;
            let left = store.map.get(&StoredKey::new(0, key.as_bytes())[..]);
            let left = left.filter(|row| row.end_ms().is_none_or(|at| at > NOW_MS + store.later_ms));
            assert_eq!(left.and_then(Row::head).map_or(0, |head| head.count), living, "seed {seed}");
        }
    }
}

#[test]
fn words_are_refused_as_redis_refuses_them() {
    let mut store = Store::default();
    store.ask("HSET h f v");
    store.ask("SET s v");
    for (line, reply) in [
        ("HEXPIRE h x FIELDS 1 f", "-ERR value is not an integer or out of range\r\n"),
        ("HEXPIRE h -1 FIELDS 1 f", "-ERR invalid expire time, must be >= 0\r\n"),
        ("HEXPIRE h 9223372036854775807 FIELDS 1 f", "-ERR invalid expire time in 'hexpire' command\r\n"),
        ("HPEXPIREAT h 70368744177664 FIELDS 1 f", "-ERR invalid expire time in 'hpexpireat' command\r\n"),
        ("HPEXPIREAT h 70368744177663 FIELDS 1 f", "*1\r\n:1\r\n"),
        ("HEXPIRE h 1 NX XX FIELDS 1 f", "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n"),
        ("HEXPIRE h 1 FIELDS 0 f", "-ERR Parameter `numFields` should be greater than 0\r\n"),
        ("HEXPIRE h 1 FIELDS x f", "-ERR Parameter `numFields` should be greater than 0\r\n"),
        ("HEXPIRE h 1 FIELDS 2 f", "-ERR The `numfields` parameter must match the number of arguments\r\n"),
        ("HTTL h FIELDS 0 f", "-ERR Number of fields must be a positive integer\r\n"),
        ("HPEXPIRETIME h FIELDS x f", "-ERR Number of fields must be a positive integer\r\n"),
        ("HPERSIST h FIELDS -1 f", "-ERR Number of fields must be a positive integer\r\n"),
        ("HTTL h FIELDS 1 f g", "-ERR The `numfields` parameter must match the number of arguments\r\n"),
        ("HEXPIRE s x FIELDS 1 f", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("HTTL s FIELDS 1 f", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("HTTL none FIELDS 2 f g", "*2\r\n:-2\r\n:-2\r\n"),
        ("HPERSIST none FIELDS 1 f", "*1\r\n:-2\r\n"),
        ("HEXPIRE none 1 FIELDS 1 f", "*1\r\n:-2\r\n"),
        (
            "HGETEX h EX 1 PERSIST FIELDS 1 f",
            "-ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified\r\n",
        ),
        ("HSETEX h FNX FXX FIELDS 1 f v", "-ERR Only one of FXX or FNX arguments can be specified\r\n"),
        ("HSETEX h EX 1 FIELDS 1 f v w", "-ERR wrong number of arguments for 'hsetex' command\r\n"),
        ("HGETDEL h FIELDS 0 f", "-ERR Number of fields must be a positive integer\r\n"),
    ] {
        assert_eq!(store.ask(line), reply, "{line}");
    }
}

#[test]
fn fields_are_set_and_read_with_their_deadlines() {
    let mut store = Store::default();
    for (line, reply) in [
        ("HSETEX h EX 10 FIELDS 2 a 1 b 2", ":1\r\n"),
        ("HTTL h FIELDS 3 a b c", "*3\r\n:10\r\n:10\r\n:-2\r\n"),
        ("HPTTL h FIELDS 1 a", "*1\r\n:10000\r\n"),
        ("HEXPIRETIME h FIELDS 1 a", "*1\r\n:1010\r\n"),
        ("HSETEX h FNX EX 99 FIELDS 2 b 9 c 9", ":0\r\n"),
        ("HSETEX h FXX KEEPTTL FIELDS 1 a 5", ":1\r\n"),
        ("HTTL h FIELDS 1 a", "*1\r\n:10\r\n"),
        ("HGETEX h FIELDS 2 a c", "*2\r\n$1\r\n5\r\n$-1\r\n"),
        ("HGETEX h PX 1500 FIELDS 1 a", "*1\r\n$1\r\n5\r\n"),
        ("HTTL h FIELDS 1 a", "*1\r\n:2\r\n"),
        ("HGETEX h PERSIST FIELDS 1 a", "*1\r\n$1\r\n5\r\n"),
        ("HTTL h FIELDS 2 a b", "*2\r\n:-1\r\n:10\r\n"),
        ("HSETEX h FIELDS 1 b 7", ":1\r\n"),
        ("HTTL h FIELDS 1 b", "*1\r\n:-1\r\n"),
        ("HINCRBYFLOAT h b 0.5", "$3\r\n7.5\r\n"),
        ("HEXPIRE h 10 FIELDS 1 b", "*1\r\n:1\r\n"),
        ("HINCRBYFLOAT h b 0.5", "$1\r\n8\r\n"),
        ("HTTL h FIELDS 1 b", "*1\r\n:10\r\n"),
        ("OBJECT ENCODING h", "$10\r\nlistpackex\r\n"),
        ("HGETEX h EXAT 1 FIELDS 1 b", "*1\r\n$1\r\n8\r\n"),
        ("HSETEX h PXAT 1 FIELDS 1 new v", ":1\r\n"),
        ("HGETALL h", "*2\r\n$1\r\na\r\n$1\r\n5\r\n"),
        ("HGETDEL h FIELDS 2 a b", "*2\r\n$1\r\n5\r\n$-1\r\n"),
        ("EXISTS h", ":0\r\n"),
    ] {
        assert_eq!(store.ask(line), reply, "{line}");
    }
}

#[test]
fn one_very_long_field_is_answered_and_taken_out() {
    let (mut store, long) = (Store::default(), "v".repeat(33 << 20));
    store.ask(&format!("HSET h f {long} g short"));
    let answer = format!("*1\r\n${}\r\n{long}\r\n", long.len());
    for line in ["HGETEX h EX 10 FIELDS 1 f", "HGETDEL h FIELDS 1 f"] {
        assert!(store.ask(line) == answer, "{line}");
    }
    assert_eq!(store.ask("HGETALL h"), "*2\r\n$1\r\ng\r\n$5\r\nshort\r\n");
}

/// As all that a tenant has is streamed: the number of fields stands in front of them.
#[test]
fn a_large_hash_is_streamed_without_fields_that_have_expired() {
    let (mut store, long) = (Store::default(), "v".repeat(100_000));
    for number in 0..12 {
        store.ask(&format!("HSET h f{number} {long}"));
    }
    store.ask("HPEXPIRE h 10 FIELDS 1 f7");
    store.later_ms = 10;
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut call = Call::new(0, NOW_MS + store.later_ms, VALUE_BYTES_MAX);
    let mut file = Writer::default();
    let outcome = done(push_row(&mut Context::reading(&store, &mut host, &mut call), b"h", &mut file));
    let written = [host.take_answer(&outcome), file.take()].concat();
    assert_eq!((outcome, &written[..4]), (Ok(()), &[kind::HASH, 1, b'h', 11][..]));
}

/// Rows whose parts cannot be read.
struct WithoutParts(Store);

impl Rows for WithoutParts {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a> {
        self.0.get(database, key, now_ms)
    }

    fn page<'a>(&'a self, database: u8, from: &'a [u8], limit: usize) -> Waiting<'a, weir_io::Result<Page>> {
        self.0.page(database, from, limit)
    }
}

#[test]
fn an_error_names_the_row_whose_expired_fields_cannot_be_counted() {
    let (mut store, long) = (Store::default(), "v".repeat(10_000));
    store.ask(&format!("HSET h a {long} b {long}"));
    store.ask("HPEXPIRE h 10 FIELDS 1 a");
    let (rows, mut call) = (WithoutParts(store), Call::new(0, NOW_MS + 10, VALUE_BYTES_MAX));
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut cx = Context::reading(&rows, &mut host, &mut call);
    let error = done(push_row(&mut cx, b"h", &mut Writer::default())).expect_err("it cannot be read");
    assert_eq!(error.text(), b"ERR the key \"h\": storage: this cannot be done");
}
