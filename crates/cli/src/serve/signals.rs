//! How the server handles signals. Only SIGTERM, SIGINT, SIGQUIT and SIGKILL end it.

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Outcome;
use super::reload::Reload;

/// Signals that by default end a process, and that mean nothing to this one: a person may send some by mistake, and
/// the kernel sends others (SIGPIPE, SIGXFSZ) where the system call would fail anyway.
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

/// The handlers of the signals that end the server or make it read its configuration again.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Sets the handlers. From here on no other signal ends the process.
    ///
    /// # Errors
    /// A handler cannot be set.
    pub fn new() -> Outcome<Self> {
        for number in IGNORED {
            // The handler stays when its receiver is dropped.
            drop(signal(SignalKind::from_raw(number.as_raw()))?);
        }
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until the process is to end. At each SIGHUP before that, asks for the configuration to be read again.
    pub async fn wait(&mut self, reload: &Reload) {
        let name = loop {
            tokio::select! {
                biased;
                _ = self.terminate.recv() => break "SIGTERM",
                _ = self.interrupt.recv() => break "SIGINT",
                _ = self.hang_up.recv() => reload.ask(),
            }
        };
        tracing::info!(signal = name, "ending: answering what was asked");
    }
}
