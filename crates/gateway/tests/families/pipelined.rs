//! Random commands of all families, in pipelines and one by one: those that are run as a group must give the same
//! answers as by themselves, leave the same rows, tell the same events and cost the same, on both engines.

use weir_io::Rng;
use weir_node::{EngineKind, Unit, UnitLimits};

use super::{FAMILIES, Family, KEYS, random_of_keys, scripts, setting, sorted};
use crate::support::random::random_command;
use crate::support::world::{World, name};
use crate::support::{Client, encode};

/// Commands whose answers depend on chance, on the clock, or on where a row keeps its members.
const LEFT_OUT: [&str; 19] = [
    "SPOP",
    "SRANDMEMBER",
    "HRANDFIELD",
    "ZRANDMEMBER",
    "RANDOMKEY",
    "SCAN",
    "SSCAN",
    "HSCAN",
    "ZSCAN",
    "DUMP",
    "TTL",
    "PTTL",
    "HTTL",
    "HPTTL",
    "XINFO",
    "XPENDING",
    "XCLAIM",
    "XAUTOCLAIM",
    "OBJECT",
];

/// Most commands of a pipeline; more than a group has.
const PIPELINE_MAX: u64 = 100;

/// What is checked besides answers and rows. While anybody is told of events, or units are limited, groups are formed
/// differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Messages,
    Units,
}

/// A tenant, a client that changes keys, and a client that is told.
struct Side {
    tenant: String,
    client: Client,
    listener: Client,
}

impl Side {
    fn new(world: &World, engine: EngineKind, what: &str) -> Self {
        let tenant = format!("{what}-{engine}");
        let client = world.tenant_on(engine, &tenant, 1, 0);
        let mut listener = world.connect(&tenant);
        assert!(listener.say("PSUBSCRIBE __key*__:*").contains("psubscribe"));
        Self { tenant, client, listener }
    }

    fn begin(&mut self, world: &World, beside: Beside) {
        let limits = match beside {
            Beside::Units => UnitLimits { rcu: 1_000_000_000, wcu: 1_000_000_000, ..UnitLimits::default() },
            _ => UnitLimits::default(),
        };
        world.node.tenant(&name(&self.tenant)).expect("there").quota().set_limits(&limits);
        assert_eq!(self.client.say("FLUSHALL"), "+OK\r\n");
        let classes = if beside == Beside::Messages { "KEAmn" } else { "\"\"" };
        assert_eq!(
            self.client.ask(&["CONFIG", "SET", "notify-keyspace-events", classes.trim_matches('"')]),
            b"+OK\r\n"
        );
    }

    fn all(&mut self, commands: &[Vec<String>]) -> Vec<Vec<u8>> {
        self.client.send(&commands.iter().flat_map(|words| encode(words)).collect::<Vec<u8>>());
        commands.iter().map(|_| self.client.reply()).collect()
    }

    /// The messages up to one that is sent now.
    fn told(&mut self) -> Vec<String> {
        assert_eq!(self.client.ask(&["PUBLISH", "__key__:end", "end"]), b":1\r\n");
        let messages = std::iter::repeat_with(|| String::from_utf8_lossy(&self.listener.reply()).into_owned());
        messages.take_while(|message| !message.contains("__key__:end")).collect()
    }

    fn write_units(&self, world: &World) -> u64 {
        world.node.tenant(&name(&self.tenant)).expect("there").quota().stats(Unit::Write).units
    }
}

fn draw(rng: &mut Rng, family: Option<&Family>) -> Vec<String> {
    let is_fit = |words: &Vec<String>| {
        let is_left_out = LEFT_OUT.iter().any(|name| words[0].eq_ignore_ascii_case(name));
        // The `*` in the id of a stream's entry stands for the time.
        !is_left_out && !words[0].to_uppercase().contains("EXPIRE") && !words.iter().any(|word| word.contains('*'))
    };
    let one = || match family {
        _ if rng.chance(0.1) => random_of_keys(rng),
        Some(family) => (family.random)(rng),
        None => random_command(rng),
    };
    std::iter::repeat_with(one).find(is_fit).expect("there are others")
}

/// Rows with more parts than fit into their heads.
fn large() -> Vec<Vec<String>> {
    let members = |words: &str, member: fn(usize) -> Vec<String>| {
        let words = words.split(' ').map(str::to_owned);
        words.chain((0..200).flat_map(member)).collect::<Vec<String>>()
    };
    vec![
        members("RPUSH a", |n| vec![format!("value-{n}")]),
        members("SADD b", |n| vec![format!("member-{n}")]),
        members("ZADD c", |n| vec![n.to_string(), format!("member-{n}")]),
        members("HSET another-key", |n| vec![format!("field-{n}"), n.to_string()]),
    ]
}

fn is_alike(words: &[String], family: Option<&Family>, one: &[u8], other: &[u8]) -> bool {
    let has_no_order =
        FAMILIES.iter().any(|family| family.unordered.iter().any(|name| words[0].eq_ignore_ascii_case(name)));
    let comparable = |reply: &[u8]| {
        let reply = if has_no_order || words[0].eq_ignore_ascii_case("KEYS") { sorted(reply) } else { reply.to_vec() };
        family.map_or(reply.clone(), |family| (family.masked)(&words[0], reply))
    };
    one == other || comparable(one) == comparable(other)
}

fn compare(world: &World, sides: &mut [Side; 2], rng: &mut Rng, beside: Beside) {
    let families: Vec<&Family> = FAMILIES.iter().filter(|family| family.name != scripts::FAMILY.name).collect();
    let family = families.get(rng.below(families.len() as u64 + 1) as usize).copied();
    sides.iter_mut().for_each(|side| side.begin(world, beside));
    if rng.chance(0.5) {
        sides.iter_mut().for_each(|side| drop(side.all(&large())));
    }
    let before = [0, 1].map(|side: usize| sides[side].write_units(world));
    let [together, apart] = sides;
    let mut asked = Vec::new();
    for _ in 0..12 {
        let commands: Vec<Vec<String>> = (0..=rng.below(PIPELINE_MAX)).map(|_| draw(rng, family)).collect();
        let one_by_one: Vec<Vec<u8>> = commands.iter().map(|words| apart.client.ask(words)).collect();
        for (words, (one, other)) in commands.iter().zip(together.all(&commands).iter().zip(&one_by_one)) {
            asked.push(words.join(" "));
            let last = &asked[asked.len().saturating_sub(40)..];
            assert!(
                is_alike(words, family, one, other),
                "{beside:?}: {words:?} in a pipeline: {}\nby itself: {}\nafter {last:#?}",
                one.escape_ascii(),
                other.escape_ascii()
            );
        }
    }
    if beside == Beside::Messages {
        let (one, other) = (together.told(), apart.told());
        let first = one.iter().zip(&other).position(|(one, other)| one != other);
        assert_eq!((one.len(), first), (other.len(), None), "{:?}", first.map(|first| (&one[first], &other[first])));
    }
    for read in family.map_or(&["GET KEY"][..], |family| family.reads).iter().chain(&["TYPE KEY"]) {
        for key in KEYS {
            let words: Vec<String> = read.replace("KEY", key).split(' ').map(str::to_owned).collect();
            let (one, other) = (together.client.ask(&words), apart.client.ask(&words));
            assert!(is_alike(&words, family, &sorted(&one), &sorted(&other)), "{words:?} after {asked:#?}");
        }
    }
    if beside == Beside::Units {
        let [one, other] = [together.write_units(world) - before[0], apart.write_units(world) - before[1]];
        // The changes that a group makes to the counts of a sorted set are written once.
        let counts = family.is_none_or(|family| ["zsets", "geo"].contains(&family.name));
        let less = if counts { other.saturating_sub(one).min(other / 2) } else { 0 };
        // A head contains the number of its life, which is a byte longer on one side now and then.
        assert!((one + less).abs_diff(other) * 100 <= other, "{one} write units together, {other} one by one");
    }
}

/// Runs `WEIR_ROUNDS` on each engine (30), from `WEIR_SEED` (0) on.
#[test]
fn a_group_does_what_its_commands_do_one_by_one() {
    let world = World::new();
    for engine in EngineKind::ALL {
        let mut sides = ["together", "apart"].map(|what| Side::new(&world, engine, what));
        let first = setting("WEIR_SEED", 0);
        for seed in first..first + setting("WEIR_ROUNDS", 30) {
            let beside = [Beside::Nothing, Beside::Messages, Beside::Units][seed as usize % 3];
            compare(&world, &mut sides, &mut Rng::new(seed), beside);
        }
    }
}
