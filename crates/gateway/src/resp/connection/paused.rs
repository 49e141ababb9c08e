//! Commands that `CLIENT PAUSE` holds.

use std::sync::Arc;

use weir_command::table::Id;
use weir_command::{Args, Command};
use weir_io::sleep_until;
use weir_script::Script;

use super::Connection;
use super::script::is_script;
use crate::resp::client::Phase;
use crate::resp::transaction::Queued;
use crate::store::Store;
use crate::tenant::account::Account;

impl<S: Store> Connection<S> {
    /// Waits while `CLIENT PAUSE` holds `command`. Replies that are ready go out first.
    pub(super) async fn wait_out_pause(&mut self, command: &Command, args: Args<'_>) {
        // A call with a wrong number of arguments is answered at once. Commands that may end the pause go on, and so do
        // those that begin or give up a transaction.
        let goes_on = matches!(command.group, "connection" | "transactions") && command.id != Id::Exec
            || !command.takes(args.len());
        if goes_on {
            return;
        }
        let writes = self.would_replicate(command, args).await;
        let server = Arc::clone(&self.server);
        let clock = &server.clock;
        loop {
            let (ended, drained) = (self.session.pause().ended(), server.drained());
            let Some(until) = self.session.pause().holds(clock.now(), writes) else { break };
            // A server that ends answers what was asked, and does not wait for the pause.
            if self.server.is_draining() {
                break;
            }
            if self.flush_before().await.is_err() {
                break;
            }
            let over = async {
                tokio::select! {
                    () = sleep_until(clock, until) => (),
                    () = ended => (),
                    () = drained => (),
                }
            };
            self.session.outbox.enter(Phase::Paused);
            self.session.outbox.while_pushing(over).await;
            self.session.outbox.enter(Phase::Serving);
        }
        self.session.outbox.lap = clock.now();
    }

    /// Whether a pause of writes holds `command`: in Redis it holds what replicas would be sent.
    async fn would_replicate(&mut self, command: &Command, args: Args<'_>) -> bool {
        let (Ok(account), Ok(store)) = (self.session.account().cloned(), self.session.store().cloned()) else {
            return command.is_replicated();
        };
        let look = Look { account, store, now_ms: self.session.call().now_ms };
        if command.id != Id::Exec {
            return look.would_replicate(command, args).await;
        }
        let queued = self.session.transaction.as_ref().map(|queue| &queue.commands[..]).unwrap_or_default();
        let queued: Vec<_> = queued.iter().filter(|one| one.command.is_replicated()).cloned().collect();
        for Queued { command, request } in queued {
            if look.would_replicate(command, request.args()).await {
                return true;
            }
        }
        false
    }
}

/// What is needed to tell whether a command writes.
struct Look<S> {
    account: Arc<Account>,
    store: S,
    now_ms: u64,
}

impl<S: Store> Look<S> {
    async fn would_replicate(&self, command: &Command, args: Args<'_>) -> bool {
        command.is_replicated() && !(is_script(command) && self.writes_nothing(command, args).await)
    }

    /// Whether the script or function that `command` runs declares that it writes nothing. An unknown one fails at
    /// once.
    async fn writes_nothing(&self, command: &Command, args: Args<'_>) -> bool {
        let scripts = &self.account.scripts;
        match command.id {
            Id::Eval => Script::parse(args.at(1)).is_ok_and(|script| script.writes_nothing),
            Id::EvalSha => {
                let digest = weir_script::parse_digest(args.at(1));
                let known = digest.and_then(|digest| scripts.cache.lock().get(&digest));
                known.is_none_or(|known| known.script.writes_nothing)
            }
            _ => {
                let libraries = scripts.functions.get(&self.store, self.now_ms).await;
                let name = String::from_utf8_lossy(args.at(1));
                let function = libraries.as_ref().ok().and_then(|libraries| libraries.function(&name));
                function.is_none_or(|function| function.writes_nothing())
            }
        }
    }
}
