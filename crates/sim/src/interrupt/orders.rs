//! The orders of a round: one of each kind, at the same time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_io::Rng;
use weir_node::EngineKind;

use super::Answers;
use crate::process::{Answer, Client, order};

/// The tenant that is backed up. It is not written to after the beginning.
pub const SOURCE: &str = "source";
/// The tenant that is emptied.
pub const FLUSHED: &str = "flushed";

/// A kind of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A backup of [`SOURCE`].
    Backup,
    /// A restore of a whole backup.
    Restore,
    /// A new tenant.
    Create,
    /// The end of a tenant that was restored.
    Drop,
    /// FLUSHALL of [`FLUSHED`].
    Flush,
}

/// How many kinds of orders there are.
pub const KINDS: usize = 5;

impl Kind {
    /// All of them.
    pub const ALL: [Kind; KINDS] = [Kind::Backup, Kind::Restore, Kind::Create, Kind::Drop, Kind::Flush];

    /// Its name, in one word.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Backup => "backup",
            Kind::Restore => "restore",
            Kind::Create => "create",
            Kind::Drop => "drop",
            Kind::Flush => "FLUSHALL",
        }
    }
}

/// The orders of one round.
#[derive(Clone, Debug)]
pub struct Round {
    /// Where the backup goes.
    pub backup: PathBuf,
    /// The backup that is restored.
    pub whole: PathBuf,
    /// The name of the tenant that is restored.
    pub restored: String,
    /// The name of the tenant that is created.
    pub created: String,
    /// The engine of the tenant that is created.
    pub engine: EngineKind,
    /// The tenant that is dropped.
    pub dropped: String,
    /// The user that logs in to send FLUSHALL.
    pub flusher: String,
}

impl Round {
    /// Gives all orders at once, each within `spread`, and waits until the last is answered or the server is gone.
    pub fn give(self, operators: SocketAddr, clients: SocketAddr, rng: &mut Rng, spread: Duration) -> Answers {
        let round = &self;
        std::thread::scope(|scope| {
            let given: Vec<_> = Kind::ALL
                .into_iter()
                .map(|kind| {
                    let delay = spread.mul_f64(rng.unit());
                    let given = scope.spawn(move || {
                        std::thread::sleep(delay);
                        let from = Instant::now();
                        (round.one(kind, operators, clients), from.elapsed())
                    });
                    (kind, given)
                })
                .collect();
            let joined = given.into_iter().map(|(kind, given)| {
                let (answer, took) = given.join().unwrap_or((Answer::Cut, Duration::ZERO));
                (kind, answer, took)
            });
            joined.collect()
        })
    }

    fn one(&self, kind: Kind, operators: SocketAddr, clients: SocketAddr) -> Answer {
        let (backup, whole) = (self.backup.display(), self.whole.display());
        match kind {
            Kind::Backup => {
                order(operators, &format!("POST /v1/tenants/{SOURCE}/backup"), &format!(r#"{{"dir":"{backup}"}}"#))
            }
            Kind::Restore => {
                let body = format!(r#"{{"dir":"{whole}","name":"{}"}}"#, self.restored);
                order(operators, "POST /v1/restore", &body)
            }
            Kind::Create => {
                let body = format!(r#"{{"name":"{}","engine":"{}","partitions":2}}"#, self.created, self.engine);
                order(operators, "POST /v1/tenants", &body)
            }
            Kind::Drop => order(operators, &format!("DELETE /v1/tenants/{}", self.dropped), ""),
            Kind::Flush => {
                let flushed = Client::connect(clients, Some((FLUSHED, &self.flusher)))
                    .and_then(|mut client| client.ask(&["FLUSHALL"]));
                match flushed {
                    Ok(said) => Answer::Done(said.unwrap_or_default()),
                    Err(story) if story.contains("was answered") => Answer::Refused(story),
                    Err(_) => Answer::Cut,
                }
            }
        }
    }
}
