//! Sends the events that the connection's commands have caused to those who want to be told.

use std::io;
use std::sync::Arc;

use weir_command::table::Id;
use weir_command::{Args, Command};

use super::Connection;
use crate::key_events::send_waiting;
use crate::resp::commands::{shrink_table, was_cut};
use crate::resp::outbox::YIELD;
use crate::resp::tracked::Reader;
use crate::store::Store;

impl<S: Store> Connection<S> {
    /// Sends the waiting events of the tenant's keys, if anybody is to be told.
    #[inline]
    pub(super) async fn send_events(&mut self) {
        if self.session.account().is_ok_and(|account| account.key_events.are_waiting()) {
            Box::pin(self.send_waiting()).await;
        }
    }

    /// The client may keep what `command` is about to read. That is noted before the read, so that no change is missed.
    /// The message of a change must not overtake the reply that still has the old value, either.
    #[inline]
    pub(super) fn remember(&mut self, command: &Command, args: Args<'_>) {
        if let Some(tracked) = &self.session.tracked {
            tracked.remember(command, args);
            self.session.outbox.hold_messages_back();
        }
    }

    /// The same for commands that run together, each of which tells the reader what it is about to read.
    pub(super) fn reader(&mut self) -> Option<Reader> {
        let reader = self.session.tracked.as_ref().map(|tracked| tracked.reader());
        if reader.is_some() {
            self.session.outbox.hold_messages_back();
        }
        reader
    }

    /// The command has ended, or was refused: the choice of `CLIENT CACHING` no longer applies, and keys beyond the
    /// limit are forgotten. `command` is `None` if there is no such command.
    #[inline]
    pub(super) async fn end_remembering(&mut self, command: Option<&Command>) {
        let is_client = command.is_some_and(|command| command.id == Id::Client);
        let is_within = self.session.transaction.is_some() || is_client;
        let Some(tracked) = &mut self.session.tracked else { return };
        if !is_within {
            tracked.caching = None;
        }
        Box::pin(shrink_table(&mut self.session)).await;
    }

    /// Puts the waiting messages after the replies so far.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn take_mail(&mut self) -> io::Result<()> {
        if self.session.outbox.has_mail() {
            self.submit().await;
            self.session.outbox.take_mail().await?;
        }
        Ok(())
    }

    /// The command has ended. As in Redis, its client is told after the reply which of its kept values it has changed
    /// itself. If the message were sent beside the replies, it would overtake a reply that waits for its commit.
    ///
    /// # Errors
    /// The client is gone.
    #[inline]
    pub(super) async fn take_own_changes(&mut self) -> io::Result<()> {
        if self.session.tracked.is_some() { self.take_mail().await } else { Ok(()) }
    }

    async fn send_waiting(&mut self) {
        let Ok(account) = self.session.account().map(Arc::clone) else { return };
        let now = self.server.clock.now();
        let cut = send_waiting(&account.key_events, (&account.pubsub, &account.tracking), now, YIELD).await;
        was_cut(&self.session, cut);
    }
}
