//! A script on a thread of its own. It asks for commands, one after the other, and waits for each reply; whoever has
//! the rows runs them.

use std::sync::{Arc, mpsc};

use tokio::sync::mpsc as asking;
use weir_command::error::Error;
use weir_command::reply::Protocol;
use weir_command::table;
use weir_io::Spawn;
use weir_script::{Bridge, Ended, Run};

use super::{Control, GONE};

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
        let text = text.escape_ascii();
        match level {
            0 => tracing::debug!("a script says: {text}"),
            1 | 2 => tracing::info!("a script says: {text}"),
            _ => tracing::warn!("a script says: {text}"),
        }
    }

    fn why_end(&mut self) -> Option<Error> {
        if self.is_gone { Some(GONE) } else { self.control.why_end() }
    }
}

impl Job {
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
