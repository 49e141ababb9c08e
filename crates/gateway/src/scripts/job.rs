//! A script on a thread of its own. It asks for commands, one after the other, and waits for each reply; whoever has
//! the rows runs them.

use std::sync::{Arc, mpsc};

use tokio::sync::{mpsc as asking, oneshot};
use weir_command::error::{Error, Outcome};
use weir_command::reply::Protocol;
use weir_io::Spawn;
use weir_script::{Bridge, Ended, Library, Limits, MEMORY_BYTES_MAX, Machine, Run, Script, World};

use super::permission::may;
use super::{Control, GONE, left_out, log};

/// What a script may use. Instructions between two looks are some ten microseconds, of which the look is a fraction.
pub(crate) const LIMITS: Limits = Limits { instructions: 1000, memory_bytes: MEMORY_BYTES_MAX };

/// What a script says.
pub(crate) enum Asked {
    /// It wants the command of these words run, and its reply in this protocol.
    Call(Vec<Vec<u8>>, Protocol),
    /// It has ended. Its machine is as good as new, where it is there.
    Ended(Ended, Option<Box<Machine>>),
}

/// See the module.
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
        // Nobody else is served on this thread.
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
    /// Whether `script` can be compiled: found out on one of `threads`, as it takes a while.
    ///
    /// # Errors
    /// The compiler's; the server is ending.
    pub(crate) async fn check(threads: &Arc<dyn Spawn>, script: Arc<Script>) -> Outcome {
        let (answer, answered) = oneshot::channel();
        threads.spawn(Box::pin(async move {
            // Whoever asked may have gone meanwhile.
            let _ = answer.send(weir_script::check(&script));
        }));
        answered.await.unwrap_or(Err(GONE))
    }

    /// The library of this code, loaded on one of `threads` in a machine of its own.
    ///
    /// # Errors
    /// It is no library; the server is ending.
    pub(crate) async fn load(threads: &Arc<dyn Spawn>, code: Vec<u8>, control: Arc<dyn World>) -> Outcome<Library> {
        let (answer, answered) = oneshot::channel();
        threads.spawn(Box::pin(async move {
            let loaded = Machine::new().and_then(|mut machine| machine.load(&code, LIMITS, &control));
            // Whoever asked may have gone meanwhile.
            let _ = answer.send(loaded);
        }));
        answered.await.unwrap_or(Err(GONE))
    }

    /// Begins `run` in `machine` on one of `threads`, until `control` says that it has to end.
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
            // Whoever asked may have gone meanwhile.
            let _ = asks.send(Asked::Ended(ended, Some(Box::new(machine))));
        }));
        Self { asked, replies }
    }

    /// What the script says next. It has to be answered before it says more.
    pub(crate) async fn next(&mut self) -> Asked {
        self.asked.recv().await.unwrap_or(Asked::Ended(Err(GONE), None))
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, reply: Outcome<Vec<u8>>) {
        // A script that has ended needs no answer.
        let _ = self.replies.send(reply);
    }
}
