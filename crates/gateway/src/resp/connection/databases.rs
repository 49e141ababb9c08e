//! A connection's use of its tenant's databases: commands run only while nobody exchanges databases, and `SWAPDB` runs
//! only while nobody else runs commands.

use std::sync::Arc;

use weir_command::error::{Error, Outcome};
use weir_command::table::Id;
use weir_command::{Args, Command, DATABASES, integer};

use super::Connection;
use super::script::is_script;
use crate::resp::alone::Alone;
use crate::resp::transaction::Queued;
use crate::store::Store;

const OUT_OF_RANGE: Error = Error::new("ERR DB index is out of range");

const NOT_WITH_WRITES: Error = Error::new(
    "EXECABORT Transaction discarded because of: SWAPDB stands alone among the commands of a transaction that write, \
     as a crash could find one done and not the other: send it in a transaction of its own",
);

/// The names of two databases.
fn names(args: Args<'_>) -> Outcome<(u8, u8)> {
    let number = |word: &[u8]| integer(word).ok().and_then(|number| i32::try_from(number).ok());
    let one = number(args.at(1)).ok_or(Error::new("ERR invalid first DB index"))?;
    let other = number(args.at(2)).ok_or(Error::new("ERR invalid second DB index"))?;
    let name = |number| u8::try_from(number).ok().filter(|&name| name < DATABASES).ok_or(OUT_OF_RANGE);
    Ok((name(one)?, name(other)?))
}

fn may_write(command: &Command) -> bool {
    command.writes() || is_script(command) && !command.flags.contains(&"readonly")
}

/// Whether `queued` exchange databases.
///
/// # Errors
/// They write something else as well, or exchange twice. Nobody could make that atomic together with the exchange.
fn exchange(queued: &[Queued]) -> Outcome<bool> {
    let is_swap = |one: &&Queued| one.command.id == Id::SwapDb;
    let writes = |one: &&Queued| may_write(one.command);
    match (queued.iter().filter(is_swap).count(), queued.iter().filter(writes).count()) {
        (0, _) => Ok(false),
        (1, 1) => Ok(true),
        _ => Err(NOT_WITH_WRITES),
    }
}

impl<S: Store> Connection<S> {
    /// To be called before each command. After this, no databases are exchanged until [`Connection::leave_databases`].
    #[inline]
    pub(super) async fn enter_databases(&mut self) {
        self.session.use_databases();
        if self.alone.is_none() && self.session.must_leave_databases() {
            Box::pin(self.wait_to_enter()).await;
        }
    }

    /// Lets others exchange databases. The gathered writes go to the store before that.
    pub(super) async fn leave_databases(&mut self) {
        self.submit().await;
        self.session.leave_databases();
    }

    async fn wait_to_enter(&mut self) {
        while self.session.must_leave_databases() {
            self.leave_databases().await;
            let Ok(over) = self.session.account().map(|account| account.swaps.over()) else { return };
            if self.session.must_leave_databases() {
                // If the client is gone, that is noticed when it is answered.
                let _ = self.flush_before().await;
                self.session.outbox.replies.own_values();
                self.session.outbox.while_pushing(over).await;
            }
            self.session.use_databases();
        }
        self.session.outbox.lap = self.server.clock.now();
    }

    /// Waits until nobody else runs commands of this tenant. Nobody does until `self.alone` is given up.
    async fn become_alone(&mut self) -> Outcome {
        self.leave_databases().await;
        let account = Arc::clone(self.session.account()?);
        let server = Arc::clone(&self.server);
        // Others may wait for the memory that values in front of this command keep.
        self.session.outbox.replies.own_values();
        let held = account.swaps.hold(|| server.clients.use_databases(account.tenant));
        let held = self.session.outbox.while_pushing(held).await;
        self.alone = Some(Arc::new(Alone::new(&account, held)));
        Ok(())
    }

    /// Waits to be alone if `queued` exchange databases.
    ///
    /// # Errors
    /// The commands cannot be made atomic together.
    pub(super) async fn become_alone_for(&mut self, queued: &[Queued]) -> Outcome {
        if exchange(queued)? { self.become_alone().await } else { Ok(()) }
    }

    /// `SWAPDB`: exchanges two databases.
    pub(super) async fn swap_databases(&mut self, args: Args<'_>) -> Outcome {
        let (one, other) = names(args)?;
        if one != other {
            let is_own = self.alone.is_none();
            if is_own {
                self.become_alone().await?;
            }
            let swapped = self.swap_alone(one, other).await;
            if is_own {
                self.alone = None;
            }
            swapped?;
        }
        self.session.outbox.replies.ok();
        Ok(())
    }

    async fn swap_alone(&mut self, one: u8, other: u8) -> Outcome {
        let account = Arc::clone(self.session.account()?);
        let Some(alone) = self.alone.clone() else {
            return Err(Error::new("ERR internal error: databases are exchanged while others run commands"));
        };
        alone.exchanges(one, other);
        let swapped = account.swap_databases((one, other), Box::new(alone));
        Ok(self.session.outbox.while_pushing(swapped).await?)
    }
}
