//! Messages that the client did not ask for, out of the connection's [`Mailbox`], sent between its replies.
//!
//! A message is sent whole, and never within a reply. There are two ways for it:
//!
//! 1. **Beside the replies**, while the connection waits: for its client's next request, for a commit, for capacity
//!    units, for the end of a pause. [`Outbox::poll_push`] writes waiting messages as far as the socket takes them,
//!    ahead of replies that may not be sent yet.
//! 2. **Among the replies**, where the order matters: messages that were sent to a channel before the client leaves it
//!    are put in front of the answer that says so. Until these replies are written, no message goes the first way.
//!
//! Both ways encode a message when it is written, in the protocol version that is valid at that time.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use weir_command::error::{Error, Outcome};
use weir_command::reply::{FLUSH_BYTES, Replies};
use weir_io::real::COPY_BYTES_MAX;

use super::{Outbox, YIELD};
use crate::mailbox::Mailbox;
use crate::resp::client::Phase;
use crate::store::Store;
use crate::tenant::byte_limit::Held;

/// The messages of one connection.
pub(super) struct Mail {
    mailbox: Arc<Mailbox>,
    /// Messages that are being written beside the replies, and how many bytes of them are written.
    aside: Replies,
    written: usize,
    /// Bytes that the mailbox counts for these messages.
    taken: usize,
    /// The replies contain messages, or answers about subscriptions, protocols or values that the client keeps. Nothing
    /// may overtake them.
    is_among: bool,
    /// Bytes that the mailbox counts for the messages among the replies.
    taken_among: usize,
    /// Set if the client does not take the messages: the phase that the connection is in once it has taken them, and
    /// what books the messages.
    blocked: Option<(Phase, Option<Held>)>,
}

impl<S: Store> Outbox<S> {
    /// The connection's mailbox. If there is none, `make` makes it.
    pub(in crate::resp) fn mailbox(&mut self, make: impl FnOnce() -> Arc<Mailbox>) -> Arc<Mailbox> {
        let mail = self.mail.get_or_insert_with(|| {
            Box::new(Mail {
                mailbox: make(),
                aside: Replies::default(),
                written: 0,
                taken: 0,
                is_among: false,
                taken_among: 0,
                blocked: None,
            })
        });
        Arc::clone(&mail.mailbox)
    }

    /// Whether messages wait.
    #[inline]
    pub(in crate::resp) fn has_mail(&self) -> bool {
        self.mail.as_ref().is_some_and(|mail| mail.mailbox.has_mail())
    }

    /// Puts the messages that wait now in front of the reply of the command under way, of which nothing is written yet.
    /// The gathered writes in front of it must have been handed over.
    ///
    /// # Errors
    /// The client is gone.
    pub(in crate::resp) async fn take_mail(&mut self) -> io::Result<()> {
        let mut left = self.mail.as_ref().map_or(0, |mail| mail.mailbox.bytes());
        while left > 0
            && self.has_mail()
            && let Some(mail) = &mut self.mail
        {
            let replies = &mut self.replies;
            let taken = mail.mailbox.take(FLUSH_BYTES, |push| replies.push(push.len, &push.front, push.rest));
            mail.taken_among += taken;
            left = left.saturating_sub(taken);
            self.end_message();
            if self.replies.len() >= FLUSH_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// From now on messages are sent after the reply of the command under way, because it says in which protocol they
    /// are, or has a value that they may be about.
    pub(in crate::resp) fn hold_messages_back(&mut self) {
        if let Some(mail) = &mut self.mail {
            mail.is_among = true;
        }
    }

    /// Answers the command under way with a message of these elements. Commands that subscribe are answered like this.
    ///
    /// # Errors
    /// The client is gone.
    pub(in crate::resp) async fn confirm(&mut self, what: &str, name: Option<&[u8]>, count: usize) -> Outcome {
        self.replies.begin_push(3);
        self.replies.bulk(what.as_bytes());
        match name {
            Some(name) => self.replies.bulk(name),
            None => self.replies.null(),
        }
        self.replies.integer(count as i64);
        self.answer.is_messages = true;
        self.end_message();
        if self.replies.len() >= FLUSH_BYTES {
            self.flush().await.map_err(|error| Error::bytes(error.to_string().into_bytes()))?;
        }
        Ok(())
    }

    /// A message is among the replies. The reply of the command under way begins after it.
    fn end_message(&mut self) {
        let from = self.replies.begin();
        self.answer_from_here(from);
        self.hold_messages_back();
    }

    /// Waits for `future`, and writes messages meanwhile.
    pub(in crate::resp) async fn while_pushing<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            let polled = future.as_mut().poll(cx);
            if polled.is_pending() {
                self.poll_push(cx);
            }
            polled
        })
        .await
    }

    /// Writes waiting messages as far as the socket takes them, and has the task woken when there is more to do.
    pub(in crate::resp) fn poll_push(&mut self, cx: &mut Context<'_>) {
        let is_within_reply = self.begins_with_rest || self.is_broken_off;
        let protocol = self.replies.protocol;
        let Some(mail) = &mut self.mail else { return };
        if is_within_reply || mail.is_among || self.is_cut {
            return;
        }
        if mail.aside.is_empty() {
            if mail.mailbox.poll_mail(cx).is_pending() {
                return;
            }
            mail.aside.protocol = protocol;
            let aside = &mut mail.aside;
            mail.taken = mail.mailbox.take(FLUSH_BYTES, |push| aside.push(push.len, &push.front, push.rest));
        }
        if self.poll_write_aside(cx).is_ready() {
            // There may be more messages. Other connections are served first, and their new input is looked for.
            let _ = pin!(YIELD.now()).poll(cx);
        }
    }

    /// Writes the rest of the messages that are being written.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn finish_push(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_write_aside(cx)).await
    }

    fn poll_write_aside(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(mail) = &self.mail else { return Poll::Ready(Ok(())) };
        if mail.aside.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let written = ready!(self.poll_write_to_end(cx));
        if written.is_err() {
            // The write may have failed in the middle of a message.
            (self.is_cut, self.closing) = (true, true);
        }
        Poll::Ready(written)
    }

    fn poll_write_to_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(mail) = &mut self.mail {
            let result = match mail.written < mail.aside.len() {
                true => self.stream.try_write_vectored(&mail.aside.pieces(mail.written, COPY_BYTES_MAX)).map(Some),
                false => self.stream.try_flush().map(|()| None),
            };
            match result {
                Ok(None) => break,
                Ok(Some(len)) => {
                    mail.written += len;
                    if mail.blocked.is_some() {
                        // The client is slow, not gone.
                        self.enter(Phase::Replying);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if mail.blocked.is_none() {
                        let unread = mail.aside.unbooked_bytes(mail.written) as u64;
                        let held = self.hold_unread(unread)?;
                        let before = self.client.phase();
                        if let Some(mail) = &mut self.mail {
                            mail.blocked = Some((before, held));
                        }
                        self.enter(Phase::Replying);
                    }
                    ready!(self.stream.poll_writable(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.end_push();
        Poll::Ready(Ok(()))
    }

    /// The connection is in `phase` once the client has taken the messages that it does not take now. `false` if there
    /// are none.
    pub(super) fn enter_behind_messages(&mut self, phase: Phase) -> bool {
        let blocked = self.mail.as_mut().and_then(|mail| mail.blocked.as_mut());
        let is_blocked = blocked.is_some();
        blocked.into_iter().for_each(|(then, _)| *then = phase);
        is_blocked
    }

    /// The messages have been sent.
    fn end_push(&mut self) {
        let Some(mail) = &mut self.mail else { return };
        let len = std::mem::take(&mut mail.written) as u64;
        mail.aside = Replies::default();
        mail.mailbox.written(std::mem::take(&mut mail.taken));
        let then = mail.blocked.take().map(|(phase, _)| phase);
        self.enter(then.unwrap_or(self.client.phase()));
        // A connection that only listens has no command whose end would give back what was booked for the messages.
        if !self.answer.is_under_way {
            self.let_go();
        }
        self.count(|stats| stats.bytes_out.add(len));
        self.book_turn(self.server.clock.now());
    }

    /// The replies have been sent, and the messages among them.
    pub(in crate::resp) fn end_messages_among(&mut self) {
        if let Some(mail) = &mut self.mail
            && std::mem::take(&mut mail.is_among)
        {
            mail.mailbox.written(std::mem::take(&mut mail.taken_among));
        }
    }
}
