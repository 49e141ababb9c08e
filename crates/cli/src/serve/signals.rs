//! What the server does with signals. Only SIGTERM, SIGINT, SIGQUIT and SIGKILL end it.

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Outcome;
use super::reload::Reload;

/// Signals whose default is to end a process, and that mean nothing to this one: those that a person may send by
/// mistake, and those that the kernel sends where a system call would fail as well (SIGPIPE, SIGXFSZ).
const IGNORED: [Number; 10] = [
    Number::PIPE,
    Number::USR1,
    Number::USR2,
    Number::ALARM,
    Number::VTALARM,
    Number::PROF,
    Number::IO,
    Number::POWER,
    Number::STKFLT,
    Number::XFSZ,
];

/// See the module.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From here on no other signal ends the process.
    ///
    /// # Errors
    /// A handler cannot be set.
    pub fn new() -> Outcome<Self> {
        for number in IGNORED {
            // The handler stays when what it tells is dropped.
            drop(signal(SignalKind::from_raw(number.as_raw()))?);
        }
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Until the process is to end. At each SIGHUP meanwhile the configuration is read again.
    pub async fn wait(&mut self, reload: Reload) {
        let name = loop {
            tokio::select! {
                biased;
                _ = self.terminate.recv() => break "SIGTERM",
                _ = self.interrupt.recv() => break "SIGINT",
                _ = self.hang_up.recv() => reload.run(),
            }
        };
        tracing::info!(signal = name, "ending: answering what was asked");
    }
}
