//! A script on a thread of its own. It asks for commands, one after the other, and waits for each reply; whoever has
//! the rows runs them.

use std::sync::{Arc, mpsc};

use tokio::sync::{mpsc as asking, oneshot};
use weir_command::error::{Error, Outcome};
use weir_command::reply::Protocol;
use weir_command::table;
use weir_io::Spawn;
use weir_script::{Bridge, Ended, Run, Script};

use super::{Control, GONE};

/// Bytes of a line that a script logs.
const LOGGED_BYTES_MAX: usize = 256;

/// What a script says.
pub(crate) enum Asked {
    /// It wants the command of these words run, and its reply in this protocol.
    Call(Vec<Vec<u8>>, Protocol),
    /// It has ended.
    Ended(Ended),
}

/// See the module.
pub(crate) struct Job {
    asked: asking::UnboundedReceiver<Asked>,
    replies: mpsc::Sender<Vec<u8>>,
}

/// The script's side.
struct Far {
    asks: asking::UnboundedSender<Asked>,
    replies: mpsc::Receiver<Vec<u8>>,
    control: Arc<Control>,
    is_gone: bool,
}

impl Bridge for Far {
    fn call(&mut self, words: Vec<Vec<u8>>, protocol: Protocol) -> Vec<u8> {
        let sent = self.asks.send(Asked::Call(words, protocol));
        match sent.ok().and_then(|()| self.replies.recv().ok()) {
            Some(reply) => reply,
            None => {
                self.is_gone = true;
                b"-ERR the script was ended\r\n".to_vec()
            }
        }
    }

    fn may(&self, words: &[Vec<u8>]) -> Option<bool> {
        words.first().and_then(|name| table::find(name)).map(|command| !command.flags.contains(&"noscript"))
    }

    fn log(&mut self, level: u8, text: &[u8]) {
        // The log is the operator's: no tenant fills it, or makes it alarm somebody.
        tracing::debug!("a script says at level {level}: {}", text[..text.len().min(LOGGED_BYTES_MAX)].escape_ascii());
    }

    fn why_end(&mut self) -> Option<Error> {
        if self.is_gone { Some(GONE) } else { self.control.why_end() }
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

    /// Begins `run` on one of `threads`, until `control` says that it has to end.
    pub(crate) fn begin(threads: &Arc<dyn Spawn>, run: Run, control: Arc<Control>) -> Self {
        let (asks, asked) = asking::unbounded_channel();
        let (replies, answers) = mpsc::channel();
        threads.spawn(Box::pin(async move {
            let far = Far { asks: asks.clone(), replies: answers, control, is_gone: false };
            let ended = weir_script::run(run, Box::new(far));
            // Whoever asked may have gone meanwhile.
            let _ = asks.send(Asked::Ended(ended));
        }));
        Self { asked, replies }
    }

    /// What the script says next. It has to be answered before it says more.
    pub(crate) async fn next(&mut self) -> Asked {
        self.asked.recv().await.unwrap_or(Asked::Ended(Err(GONE)))
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, reply: Vec<u8>) {
        // A script that has ended needs no answer.
        let _ = self.replies.send(reply);
    }
}
