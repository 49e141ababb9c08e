//! Imports a running Redis into a tenant: all its data, and then all its changes.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::{Either, select};
use tokio::sync::watch;
use tokio::task::JoinSet;
use weir_io::Nanos;

use super::follow::follow;
use super::partitions::Partitions;
use super::position::Position;
use super::snapshot::load;
use super::step::Steps;
use super::{Choice, Import};
use crate::address::Address;
use crate::failure::{Failure, Remedy, Result};
use crate::rdb::{Dump, Input};
use crate::resp::Connection;
use crate::source::{Acks, Attached, Snapshot, SocketBytes, attach};
use crate::tally::Phase;
use crate::target::{ExpiryPause, Target, end_expiry_pause, keep_expiry_paused};
use crate::within::{SECOND, pause};

/// How long the source may be away, in seconds.
const AWAY_SECONDS: u64 = 300;
/// How many snapshots in a row the source may break off: each one reads all its data anew.
const BROKEN_SNAPSHOTS_MAX: u32 = 5;
/// Bytes of the mark behind a snapshot.
const MARK_BYTES: usize = 40;

/// An import that follows a source.
struct Live<'i> {
    import: &'i Import,
    source: &'i Address,
    steps: Steps,
    /// Up to where the tenant has everything; `None` before there is a whole snapshot in it.
    position: Option<Position>,
    /// A part of a snapshot may be in the tenant.
    has_begun: bool,
    /// When the source last answered.
    heard: Nanos,
    /// Snapshots that were broken off since the last whole one.
    broken_snapshots: u32,
    value_bytes_max: usize,
}

/// Imports everything from `source`, and then follows it until `stop` is true or, if so chosen, until it is in step.
/// Gives the position up to which the tenant has everything.
///
/// # Errors
/// The source or the tenant refuses, or stayed away. What was imported stays; started again, it goes on from there if
/// the snapshot had been whole.
pub async fn import_live(import: &Import, source: &Address, mut stop: watch::Receiver<bool>) -> Result<Position> {
    let target = Target { stop: Some(stop.clone()), ..import.target.clone() };
    let mut import = Import { target, ..import.clone() };
    let preparing = prepare(&mut import);
    let (steps, position, value_bytes_max) = match select(pin!(preparing), pin!(stop.wait_for(|&stop| stop))).await {
        Either::Left((prepared, _)) => prepared?,
        Either::Right(_) => {
            return Err(Failure::new("interrupted before the import began: start the same command again"));
        }
    };
    let (import, heard) = (&import, import.clock.now());
    let mut live =
        Live { import, source, steps, position, has_begun: false, heard, broken_snapshots: 0, value_bytes_max };
    // Tasks of a set end also if this future is dropped.
    let mut tasks = JoinSet::new();
    tasks.spawn(crate::source::watch(source.clone(), Arc::clone(&import.tally), Arc::clone(&import.clock)));
    tasks.spawn(keep_expiry_paused(import.target.clone()));
    let done = live.run(&mut stop).await;
    tasks.shutdown().await;
    done?;
    let position = live.position.clone().ok_or_else(|| live.interrupted())?;
    if let Err(failure) = live.steps.end().await {
        return Err(if *stop.borrow() { failure.of(live.interrupted()) } else { failure });
    }
    // The tenant has everything, whatever becomes of this.
    if let Err(failure) = end_expiry_pause(&import.target).await {
        import.tally.note(format!("the tenant's expiry stays paused for a minute at most: {failure}"));
    }
    Ok(position)
}

/// Prepares the tenant, and pauses its expiry. Gives how steps are done, the position of an import that was here
/// before, and the bytes of the longest value that the tenant takes.
///
/// # Errors
/// The tenant refuses, or has keys, or another import is under way in it.
async fn prepare(import: &mut Import) -> Result<(Steps, Option<Position>, usize)> {
    let mut connection = import.target.connect().await?;
    let value_bytes_max = import.target.value_bytes_max(&mut connection).await?;
    let partitions = Partitions::new(import.target.partitions(&mut connection).await?);
    let mut steps = Steps::new(&import.target, &import.tally, partitions);
    let position = steps.resume_point().await?;
    // An import that goes on knows no more of the source than the one before it did.
    let now_ms = import.clock.unix_ms();
    let in_step_ms = position.as_ref().map(|position| position.in_step_ms).filter(|&at_ms| at_ms > 0);
    import.tally.in_step_ms.store(in_step_ms.unwrap_or(now_ms).min(now_ms), Ordering::Relaxed);
    pause_expiry(import, &mut connection).await?;
    steps.target = import.target.clone();
    drop(connection);
    if position.is_some() {
        check_choice(import, &mut steps).await?;
    } else {
        // If only some partitions have marks, an import ended just after it had emptied the tenant.
        steps.end().await?;
        import.check_empty().await?;
    }
    Ok((steps, position, value_bytes_max))
}

/// Refuses to go on with an import of other databases: what that one has left out would be missing.
async fn check_choice(import: &Import, steps: &mut Steps) -> Result {
    let (first, numbers) = (import.choice.first(), import.choice.numbers());
    let chosen = steps.chosen().await?;
    match chosen {
        Some(chosen) if chosen != numbers => Err(Failure::new(format!(
            "an import of the databases {chosen} was under way in this tenant, and this one is of {numbers}: say the \
             same --db, or empty the tenant with FLUSHALL, and start again"
        ))),
        _ => steps.choose(first, numbers).await,
    }
}

/// Pauses the tenant's expiry until the import is in step, if the server can do that.
async fn pause_expiry(import: &mut Import, connection: &mut Connection) -> Result {
    let expiry_pause = ExpiryPause::new(&import.tally);
    let refused = expiry_pause.try_begin(connection).await?;
    if let Some(error) = &refused {
        import.tally.note(format!(
            "the server does not pause expiry for this import ({error}): keys that the source keeps alive with EXPIRE \
             may be lost"
        ));
    }
    import.target.expiry_pause = refused.is_none().then(|| Arc::new(expiry_pause));
    Ok(())
}

impl Live<'_> {
    async fn run(&mut self, stop: &mut watch::Receiver<bool>) -> Result {
        let clock = &self.import.clock;
        let (mut wait_ms, mut is_first) = (100, true);
        loop {
            let before = self.position.clone();
            let failure = match self.once(stop).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            if self.position != before {
                (self.heard, wait_ms) = (clock.now(), 100);
            }
            let is_away_for_long = clock.now() - self.heard > AWAY_SECONDS * SECOND;
            match failure.remedy {
                Remedy::None => return Err(failure),
                Remedy::End => {
                    self.steps.end().await?;
                    return Err(failure);
                }
                // Do not wait for a server that was never there.
                Remedy::Reconnect if is_first && !self.has_begun && before.is_none() => return Err(failure),
                Remedy::Reconnect if is_away_for_long => {
                    return Err(Failure::new(format!("{failure}; it was tried for {AWAY_SECONDS} s")));
                }
                Remedy::Reconnect if self.broken_snapshots >= BROKEN_SNAPSHOTS_MAX => {
                    return Err(Failure::new(format!(
                        "{failure}; the source has broken off {BROKEN_SNAPSHOTS_MAX} snapshots: raise \
                         client-output-buffer-limit replica and repl-backlog-size there"
                    )));
                }
                Remedy::Reconnect => {}
                Remedy::Restart => {
                    self.position = self.steps.resume_point().await?;
                    if self.position.is_none() && !self.has_begun {
                        // What this import has written beside the data is no data.
                        self.steps.end().await?;
                        self.import.check_empty().await?;
                    }
                }
            }
            self.import.tally.set_phase(Phase::Connecting);
            self.import.tally.note(format!("{failure}; connecting again"));
            if let Either::Right(_) = select(pin!(pause(clock, wait_ms)), pin!(stop.wait_for(|&stop| stop))).await {
                return Err(self.interrupted());
            }
            wait_ms = (wait_ms * 2).min(5_000);
            is_first = false;
        }
    }

    /// Why an import ends that is told to while it does not follow its source, or cannot reach the tenant. A position
    /// stays in the tenant.
    fn interrupted(&self) -> Failure {
        Failure::new(match &self.position {
            Some(position) => format!(
                "interrupted while the source was not followed or the tenant was away: the tenant has everything up to \
                 {position}, and the same command goes on from there"
            ),
            None if self.has_begun => {
                "interrupted before the whole snapshot was here: the tenant has some of the keys, empty it and start \
                 again"
                    .into()
            }
            None => "interrupted before the source sent anything: nothing was imported".into(),
        })
    }

    /// Imports over one connection to the source, until that ends.
    async fn once(&mut self, stop: &mut watch::Receiver<bool>) -> Result {
        // A source that is still busy with its snapshot answers when it has one.
        let attaching = attach(self.source, self.position.as_ref(), &self.import.clock);
        let attached = match select(pin!(attaching), pin!(stop.wait_for(|&stop| stop))).await {
            Either::Left((attached, _)) => attached?,
            Either::Right(_) => return Err(self.interrupted()),
        };
        let (input, acks) = match attached {
            Attached::Partial { input, acks, history } => {
                if let (Some(history), Some(position)) = (history, &mut self.position) {
                    position.history = history;
                }
                (input, acks)
            }
            Attached::Full(snapshot) => {
                self.make_room().await?;
                let loaded = self.load(snapshot, stop).await;
                // However long that took, the source was there.
                self.heard = self.import.clock.now();
                self.broken_snapshots = if loaded.is_ok() { 0 } else { self.broken_snapshots + 1 };
                loaded?
            }
        };
        let Some(position) = &mut self.position else {
            return Ok(());
        };
        follow(self.import, input, &acks, &mut self.steps, position, self.value_bytes_max, stop).await
    }

    /// Empties the tenant before everything comes anew: what was imported before has to go.
    async fn make_room(&mut self) -> Result {
        if self.position.is_some() && !self.has_begun {
            return Err(Failure::new(
                "the tenant has what an earlier import brought, and the source can no longer tell what it did since: \
                 empty the tenant with FLUSHALL, and start again",
            ));
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        self.position = None;
        let Choice { databases, replace, .. } = &self.import.choice;
        if *replace {
            return Err(Failure::new(
                "the connection broke, and the source begins anew with everything: with --replace the tenant may have \
                 keys of its own, so that keys which the source has deleted meanwhile cannot be told from those. Delete \
                 what was imported, and start again",
            ));
        }
        self.import.tally.restart();
        self.import.tally.restarts.fetch_add(1, Ordering::Relaxed);
        let mut connection = self.import.target.connect_again().await?;
        if databases.is_empty() {
            connection.ask(&["FLUSHALL"]).await?;
        }
        for database in databases {
            crate::target::select(&mut connection, *database).await?;
            connection.ask(&["FLUSHDB"]).await?;
        }
        Ok(())
    }

    /// Loads a snapshot. Unless it was stopped, gives the stream behind the snapshot, to be followed.
    async fn load(
        &mut self,
        snapshot: Snapshot,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(Input<SocketBytes>, Acks)> {
        let Snapshot { input, acks, mut position, bytes, mark } = snapshot;
        let tally = &self.import.tally;
        tally.bytes_expected.store(bytes.unwrap_or(0), Ordering::Relaxed);
        tally.set_phase(Phase::Snapshot);
        let mut dump = Dump::open(input, self.value_bytes_max, self.import.whole_bytes_max).await?;
        let loading = load(self.import, &mut dump);
        let stopped = stop.wait_for(|&stop| stop);
        let loaded = match select(pin!(loading), pin!(stopped)).await {
            Either::Left((loaded, _)) => loaded,
            Either::Right(_) => Err(self.interrupted()),
        };
        loaded?;
        if bytes.is_some_and(|bytes| bytes != dump.consumed()) {
            return Err(Failure::broken("the snapshot has another length than was said"));
        }
        position.database = dump.stream_database();
        position.in_step_ms = tally.in_step_ms.load(Ordering::Relaxed);
        let mut input = dump.into_input();
        if let Some(mark) = mark {
            let met = input.piece(|rest| weir_command::rdb::take(rest, MARK_BYTES).map(<[u8]>::to_vec)).await?;
            if met != mark {
                return Err(Failure::broken("the snapshot does not end where it should"));
            }
        }
        self.steps.end().await?;
        let choice = &self.import.choice;
        self.steps.choose(choice.first(), choice.numbers()).await?;
        self.steps.begin(choice.first(), &position).await?;
        self.position = Some(position);
        let (socket, received) = input.into_parts();
        Ok((Input::new(socket, received), acks))
    }
}

#[cfg(test)]
mod tests;
