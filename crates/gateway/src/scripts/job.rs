//! A script on a thread of its own. It asks for commands one after the other and waits for each reply; whoever has the
//! rows runs the commands.

use std::sync::{Arc, mpsc};

use tokio::sync::{mpsc as asking, oneshot};
use weir_command::error::{Error, Outcome};
use weir_command::reply::Protocol;
use weir_io::Spawn;
use weir_script::{Bridge, Ended, Library, Limits, MEMORY_BYTES_MAX, Machine, Run, Script, World};

use super::permission::may;
use super::{Control, GONE, left_out, log};

/// What a script may use. The instructions between two checks take some ten microseconds, of which the check is a
/// fraction.
pub(crate) const LIMITS: Limits = Limits { instructions: 1000, memory_bytes: MEMORY_BYTES_MAX };

/// What a script asks of its connection.
pub(crate) enum Asked {
    /// It wants this command, given as its words, to be run, and wants the reply in this protocol.
    Call(Vec<Vec<u8>>, Protocol),
    /// It has ended. If its machine is returned, it is as good as new.
    Ended(Ended, Option<Box<Machine>>),
}

/// The connection's side of a running script.
pub(crate) struct Job {
    asked: asking::UnboundedReceiver<Asked>,
    replies: mpsc::Sender<Outcome<Vec<u8>>>,
}

/// The script's side.
struct Far {
    asks: asking::UnboundedSender<Asked>,
    replies: mpsc::Receiver<Outcome<Vec<u8>>>,
}

impl Bridge for Far {
    fn call(&mut self, words: Vec<Vec<u8>>, protocol: Protocol) -> Outcome<Vec<u8>> {
        self.asks.send(Asked::Call(words, protocol)).map_err(|_| GONE)?;
        self.replies.recv().unwrap_or(Err(GONE))
    }
}

impl World for Control {
    fn may(&self, words: &[Vec<u8>]) -> Option<bool> {
        // The check may take many turns, because nobody else is served on this thread.
        may(self.user.get().map(|user| &**user), words, None).unwrap_or(Some(false))
    }

    fn log(&self, level: u8, text: &[u8]) {
        log(level, text);
    }

    fn left_out(&self, library: &str, why: &Error) {
        left_out(library, why);
    }

    fn why_end(&self) -> Option<Error> {
        self.why_end()
    }

    fn no_memory(&self) -> Option<Error> {
        None
    }
}

impl Job {
    /// Checks whether `script` can be compiled. This is done on one of `threads`, because it takes a while.
    ///
    /// # Errors
    /// The compiler's error, or that the server is ending.
    pub(crate) async fn check(threads: &Arc<dyn Spawn>, script: Arc<Script>) -> Outcome {
        let (answer, answered) = oneshot::channel();
        threads.spawn(Box::pin(async move {
            // The caller may have gone meanwhile.
            let _ = answer.send(weir_script::check(&script));
        }));
        answered.await.unwrap_or(Err(GONE))
    }

    /// Loads this code as a library, on one of `threads` in a machine of its own.
    ///
    /// # Errors
    /// The code is no library, or the server is ending.
    pub(crate) async fn load(threads: &Arc<dyn Spawn>, code: Vec<u8>, control: Arc<dyn World>) -> Outcome<Library> {
        let (answer, answered) = oneshot::channel();
        threads.spawn(Box::pin(async move {
            let loaded = Machine::new().and_then(|mut machine| machine.load(&code, LIMITS, &control));
            // The caller may have gone meanwhile.
            let _ = answer.send(loaded);
        }));
        answered.await.unwrap_or(Err(GONE))
    }

    /// Begins `run` in `machine` on one of `threads`. It ends at the latest when `control` says that it has to.
    pub(crate) fn begin(
        threads: &Arc<dyn Spawn>,
        run: Arc<Run>,
        mut machine: Machine,
        control: Arc<dyn World>,
    ) -> Self {
        let (asks, asked) = asking::unbounded_channel();
        let (replies, answers) = mpsc::channel();
        threads.spawn(Box::pin(async move {
            let mut far = Far { asks: asks.clone(), replies: answers };
            let ended = machine.run(&run, LIMITS, &mut far, &control);
            machine.collect();
            // The caller may have gone meanwhile.
            let _ = asks.send(Asked::Ended(ended, Some(Box::new(machine))));
        }));
        Self { asked, replies }
    }

    /// The next message of the script. A call has to be answered before the next one comes.
    pub(crate) async fn next(&mut self) -> Asked {
        self.asked.recv().await.unwrap_or(Asked::Ended(Err(GONE), None))
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, reply: Outcome<Vec<u8>>) {
        // A script that has ended needs no answer.
        let _ = self.replies.send(reply);
    }
}
