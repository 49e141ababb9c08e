//! While a source is followed, nothing expires in the target that had not expired when the target was last in step.
//!
//! Clients of the source may have given a key more time, and the target does not know it yet: a key whose deadline has
//! passed here must still be there when that command comes. A key that really has expired is deleted by the source,
//! which sends that, too. So the target's expiry is paused at the last moment up to which the target has all that the
//! source did, and that moment moves on while the source is followed. Each connection to the target asks for the pause
//! before anything else, and a task asks again once a second. If the import is gone, the pause ends by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Target;
use crate::failure::Result;
use crate::resp::{Connection, Reply};
use crate::tally::Tally;
use crate::within::{pause, within};

/// How long the target pauses its expiry when it is asked to, in milliseconds: the most that it takes.
const PAUSE_MS: &str = "60000";
/// How often it is asked again, in milliseconds.
const AGAIN_MS: u64 = 1_000;
/// A target that does not answer within this many seconds is asked on another connection.
const ANSWER_SECONDS: u64 = 10;
/// How far the clocks of the source and of this machine may be apart, in milliseconds.
const CLOCKS_APART_MS: u64 = 1_000;

/// A pause of the target's expiry.
pub struct ExpiryPause {
    tally: Arc<Tally>,
    began_ms: u64,
}

impl ExpiryPause {
    /// The pause of an import with this `tally` that began at `began_ms`, in milliseconds since 1970.
    pub fn new(tally: &Arc<Tally>, began_ms: u64) -> Self {
        Self { tally: Arc::clone(tally), began_ms }
    }

    /// What had expired at this moment, in milliseconds since 1970, has expired at the source, too.
    pub fn at_ms(&self) -> u64 {
        self.began_ms.max(self.tally.in_step_ms.load(Ordering::Relaxed)).saturating_sub(CLOCKS_APART_MS)
    }

    /// Asks for the pause; gives the reason if the target refuses.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn try_begin(&self, connection: &mut Connection) -> Result<Option<String>> {
        let at = self.at_ms().to_string();
        Ok(match connection.call_patiently(&["CLIENT", "PAUSE", PAUSE_MS, "EXPIRY", &at]).await? {
            Reply::Error(error) => Some(error),
            _ => None,
        })
    }

    /// Asks for the pause again.
    ///
    /// # Errors
    /// The connection broke, or the target refuses.
    pub async fn renew(&self, connection: &mut Connection) -> Result {
        let at = self.at_ms().to_string();
        connection.ask(&["CLIENT", "PAUSE", PAUSE_MS, "EXPIRY", &at]).await.map(drop)
    }
}

/// Ends the pause of `target`, if there is one. Nothing of the import may be under way.
///
/// # Errors
/// The target stayed away, or refuses.
pub async fn end_expiry_pause(target: &Target) -> Result {
    if target.expiry_pause.is_none() {
        return Ok(());
    }
    // A new connection asks for the pause first, and this comes behind it.
    let mut connection = target.connect_again().await?;
    connection.ask(&["CLIENT", "PAUSE", "0", "EXPIRY", "0"]).await.map(drop)
}

/// Asks `target` again and again to pause its expiry, until it is dropped.
pub async fn keep_expiry_paused(target: Target) {
    let Some(expiry_pause) = &target.expiry_pause else { return };
    let mut connection: Option<Connection> = None;
    loop {
        pause(&target.clock, AGAIN_MS).await;
        let asked = async {
            match connection.take() {
                // Opening one asks.
                None => target.connect().await,
                Some(mut open) => expiry_pause.renew(&mut open).await.map(|()| open),
            }
        };
        // Those who write to the target report what is wrong with it. The next round opens another connection.
        connection = within(&target.clock, ANSWER_SECONDS, "CLIENT PAUSE", asked).await.ok();
    }
}
