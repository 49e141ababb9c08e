//! What a user can do to a server, by accident or on purpose.

mod connections;
mod requests;
mod rows;
mod unread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use self::rows::Row;
use super::user::User;
use crate::Result;
use crate::child_server::ChildServer;

/// Attacks until told to stop, or until the server ends the attack.
type Attacker = fn(&Door, &AtomicBool) -> Result<()>;

/// How attackers connect.
#[derive(Clone, Debug)]
pub(super) struct Door {
    /// The server's port. Most attackers connect as `default`, without a login.
    pub(super) port: u16,
    /// The user that the other attackers log in as. If they made all the connections that `default` may have, these
    /// would keep out everybody who has not logged in yet, the victim included.
    pub(super) user: User,
}

/// How long attackers run before the victim is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// The same for attackers that make tens of thousands of connections first.
const LONG_WARM_UP: Duration = Duration::from_secs(10);
const MIB: u64 = 1 << 20;

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Pipelines of reads and writes on four connections, as fast as they go.
    Flood,
    /// Values of 8 MB, written and read.
    LargeValues,
    /// `KEYS *` over a million keys, again and again.
    Keys,
    /// A hash of 200,000 fields, read as a whole on four connections, again and again.
    Hgetall,
    /// The same of a set.
    Smembers,
    /// The same of a list.
    Lrange,
    /// The same of a sorted set, by rank and with its scores.
    Zrange,
    /// A list of 200,000 numbers, sorted.
    Sort,
    /// Scripts on four connections that loop without end.
    Lua,
    /// Scripts on four connections that call commands in a loop.
    LuaCalls,
    /// Ten thousand connections that each sent half a command.
    HalfSent,
    /// Commands that announce a gigabyte.
    Announced,
    /// Large replies that nobody reads.
    Unread,
    /// A hundred listeners that read nothing, and two clients that publish to them without end.
    UnreadMessages,
    /// Connections made and left as fast as they go.
    Storm,
    /// 50,000 clients that wait for a list (fewer if fewer files may be open), and one client that keeps offering it.
    Blocked,
}

impl Attack {
    /// Every attack.
    pub const ALL: [Attack; 16] = [
        Attack::Flood,
        Attack::LargeValues,
        Attack::Keys,
        Attack::Hgetall,
        Attack::Smembers,
        Attack::Lrange,
        Attack::Zrange,
        Attack::Sort,
        Attack::Lua,
        Attack::LuaCalls,
        Attack::HalfSent,
        Attack::Announced,
        Attack::Unread,
        Attack::UnreadMessages,
        Attack::Storm,
        Attack::Blocked,
    ];

    /// The name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Attack::Flood => "flood",
            Attack::LargeValues => "large-values",
            Attack::Keys => "keys",
            Attack::Hgetall => "hgetall",
            Attack::Smembers => "smembers",
            Attack::Lrange => "lrange",
            Attack::Zrange => "zrange",
            Attack::Sort => "sort",
            Attack::Lua => "lua",
            Attack::LuaCalls => "lua-calls",
            Attack::HalfSent => "half-sent",
            Attack::Announced => "announced",
            Attack::Unread => "unread",
            Attack::UnreadMessages => "unread-messages",
            Attack::Storm => "storm",
            Attack::Blocked => "blocked",
        }
    }

    /// The attack of that name.
    pub fn parse(name: &str) -> Result<Self> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|attack| attack.name() == name);
        found.ok_or_else(|| format!("no attack is called {name}; there are {}", names()).into())
    }

    /// What its tenant may make the server hold, in bytes, besides memtables and cached blocks: the limits of the
    /// tenant that apply, as docs/architecture/memory.md has them, plus what the allocator may keep.
    pub const fn memory_max(self) -> u64 {
        const ALLOCATOR: u64 = 64 * MIB;
        ALLOCATOR
            + match self {
                // Replies that are not read.
                Attack::Flood | Attack::Keys | Attack::Unread | Attack::Storm => 64 * MIB,
                Attack::Hgetall | Attack::Smembers | Attack::Lrange | Attack::Zrange => 64 * MIB,
                // Four connections, each with what one SORT may hold.
                Attack::Sort => 4 * 64 * MIB,
                // Two scripts of a tenant at a time.
                Attack::Lua | Attack::LuaCalls => 2 * 64 * MIB,
                // Long requests that are not complete.
                Attack::HalfSent | Attack::Announced => 256 * MIB,
                // Such requests, and long values on their way to clients.
                Attack::LargeValues => 512 * MIB,
                // Messages, and subscriptions.
                Attack::UnreadMessages => 128 * MIB,
                // The keys that clients wait for.
                Attack::Blocked => 256 * MIB,
            }
    }

    /// The tenant whose connections the attackers have.
    pub(super) fn tenant(self, door: &Door) -> &str {
        match self {
            Attack::Blocked => &door.user.name,
            _ => super::DEFAULT,
        }
    }

    pub(super) const fn warm_up(self) -> Duration {
        match self {
            Attack::Blocked => LONG_WARM_UP,
            _ => WARM_UP,
        }
    }

    /// Makes the data that the attack needs.
    pub(super) fn prepare(self, server: &ChildServer) -> Result<()> {
        match self {
            Attack::Keys => rows::load_keys(server),
            Attack::Hgetall => Row::Hash.load(server),
            Attack::Smembers => Row::Set.load(server),
            Attack::Lrange | Attack::Sort => Row::List.load(server),
            Attack::Zrange => Row::SortedSet.load(server),
            _ => Ok(()),
        }
    }

    /// The attackers, and how many of each.
    const fn attackers(self) -> &'static [(usize, Attacker)] {
        match self {
            Attack::Flood => &[(4, |door, stop| requests::flood(door.port, stop))],
            Attack::LargeValues => &[(2, |door, stop| requests::large_values(door.port, stop))],
            Attack::Keys => &[(1, |door, stop| requests::again(door.port, stop, &[b"KEYS", b"*"]))],
            Attack::Hgetall => &[(4, |door, stop| requests::again(door.port, stop, &[b"HGETALL", Row::Hash.key()]))],
            Attack::Smembers => &[(4, |door, stop| requests::again(door.port, stop, &[b"SMEMBERS", Row::Set.key()]))],
            Attack::Lrange => {
                &[(4, |door, stop| requests::again(door.port, stop, &[b"LRANGE", Row::List.key(), b"0", b"-1"]))]
            }
            Attack::Zrange => &[(4, |door, stop| {
                requests::again(door.port, stop, &[b"ZRANGE", Row::SortedSet.key(), b"0", b"-1", b"WITHSCORES"])
            })],
            Attack::Sort => &[(4, |door, stop| requests::again(door.port, stop, &[b"SORT", Row::List.key()]))],
            Attack::Lua => &[(4, |door, stop| requests::again(door.port, stop, &[b"EVAL", LOOP, b"0"]))],
            Attack::LuaCalls => {
                &[(4, |door, stop| requests::again(door.port, stop, &[b"EVAL", CALLS, b"1", b"attack:counter"]))]
            }
            Attack::HalfSent => &[(1, |door, stop| connections::half_sent(door.port, stop))],
            Attack::Announced => &[(2, |door, stop| connections::announced(door.port, stop))],
            Attack::Unread => &[(8, |door, stop| unread::replies(door.port, stop))],
            Attack::UnreadMessages => {
                &[(1, |door, stop| unread::listen(door.port, stop)), (2, |door, stop| unread::publish(door.port, stop))]
            }
            Attack::Storm => &[(2, |door, stop| connections::storm(door.port, stop))],
            Attack::Blocked => &[(1, connections::blocked), (1, connections::tease)],
        }
    }

    /// Begins the attack, which lasts until `stop`. The server may cut and refuse attackers: they come again.
    pub(super) fn start(self, door: &Door, stop: &Arc<AtomicBool>) -> super::Threads {
        let attacker = |one: Attacker, stop: Arc<AtomicBool>| {
            let door = door.clone();
            move || {
                while !stop.load(Ordering::Relaxed) {
                    if one(&door, &stop).is_err() {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        };
        let all = self.attackers().iter().flat_map(|&(count, one)| std::iter::repeat_n(one, count));
        all.map(|one| thread::spawn(attacker(one, Arc::clone(stop)))).collect()
    }
}

/// A script that ends when the server ends it.
const LOOP: &[u8] = b"local n = 0 while true do n = n + 1 end";
const CALLS: &[u8] = b"for n = 1, 200000 do redis.call('INCR', KEYS[1]) end";
