//! Clients whose server has a disk that fails for a while: they are refused, and go on.
//!
//! A step that the disk refuses may have been taken all the same, and nobody knows before the server accepts writes
//! again. So a client waits for that, looks which step was the last, and goes on behind it. It sends one step at a
//! time: of several, the server might refuse the first one and take the others.

use std::io::{ErrorKind, Result};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{LIBRARY_EVERY, Line, PATIENCE, Steps, name, refused, step, way};
use crate::kill9::Load;
use crate::process::Door;
use crate::reply::Reply;

/// How long a client rests after a refusal.
const REST: Duration = Duration::from_millis(10);

/// Asked at each refusal: whether the client goes on.
pub type GoesOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// Whether a server answers so because its disk fails, or is full.
fn is_of_disk(why: &str) -> bool {
    why.starts_with("MISCONF ") || why.starts_with("ERR storage: the disk failed")
}

impl Steps {
    /// Takes `steps` steps as `client`. If the disk refuses one and the client does not go on, it is left open whether
    /// that step was taken.
    ///
    /// # Errors
    /// The server is gone, does not accept writes again, or has given an answer that it should not have given.
    pub fn take_patiently(&self, door: &Door, client: usize, steps: u64, goes_on: GoesOn<'_>) -> Result<()> {
        let name = name(client);
        let mut line = Line::enter(door)?;
        let until = self.acknowledged() + steps;
        while self.acknowledged() < until {
            if self.try_step(&mut line, &name, self.acknowledged() + 1)? {
                continue;
            }
            let is_found = goes_on() && self.find_last(&mut line, &name, goes_on)?;
            if !is_found {
                break;
            }
        }
        Ok(())
    }

    /// Takes step `n`, which the disk may refuse as a whole. `false` if it did.
    fn try_step(&self, line: &mut Line, name: &str, n: u64) -> Result<bool> {
        if n.is_multiple_of(LIBRARY_EVERY) || n == 1 {
            let told = line.ask(&[way::library(name, n)])?;
            match told[0].error() {
                Some(why) if is_of_disk(&why) => return Ok(false),
                Some(why) => return Err(refused(format!("FUNCTION LOAD: {why}"))),
                None => {}
            }
        }
        self.sent.store(n, Ordering::SeqCst);
        let replies = line.ask(&way::sent(name, n))?;
        if replies.last().and_then(Reply::error).is_some_and(|why| is_of_disk(&why)) {
            return Ok(false);
        }
        way::judge(n, &replies).map_err(refused)?;
        self.acknowledged.store(n, Ordering::SeqCst);
        Ok(true)
    }

    /// Waits until the server accepts writes again, and looks whether the step that was refused is there. `false` if
    /// the client does not go on.
    fn find_last(&self, line: &mut Line, name: &str, goes_on: GoesOn<'_>) -> Result<bool> {
        let since = Instant::now();
        while let Some(why) = line.ask(&[step::try_to_write(name)])?[0].error() {
            if !is_of_disk(&why) || since.elapsed() > PATIENCE {
                return Err(refused(format!("writes are not accepted again: {why}")));
            }
            if !goes_on() {
                return Ok(false);
            }
            std::thread::sleep(REST);
        }
        let told = line.ask(&[step::last(name)])?;
        let last: u64 = told[0].text().parse().unwrap_or(0);
        let (acknowledged, sent) = (self.acknowledged(), self.sent());
        if told[0].error().is_some() || last < acknowledged || last > sent {
            let found = format!("the last step is {:?}", told[0]);
            return Err(refused(format!("{found}: {acknowledged} were acknowledged, {sent} sent")));
        }
        self.acknowledged.store(last, Ordering::SeqCst);
        Ok(true)
    }

    /// Takes over numbers as the companion of `client`, and waits for each of them until it comes. After `stop` it ends
    /// with the next number, or when its connection is cut.
    ///
    /// # Errors
    /// The server is gone, lets the companion wait although there is a number, or has given an answer that it should
    /// not have given.
    pub fn take_over_patiently(
        &self,
        door: &Door,
        client: usize,
        stop: &AtomicBool,
        goes_on: GoesOn<'_>,
    ) -> Result<()> {
        let (mut line, command) = (Line::enter(door)?, step::wait_and_take(&name(client)));
        while !stop.load(Ordering::SeqCst) {
            let told = match line.ask(slice::from_ref(&command)) {
                Ok(told) => told,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(refused("BLMOVE: the companion was not woken".to_owned()));
                }
                Err(_) if stop.load(Ordering::SeqCst) => return Ok(()),
                Err(error) => return Err(error),
            };
            match (&told[0], told[0].error()) {
                (Reply::Bulk(Some(_)), _) => drop(self.taken.fetch_add(1, Ordering::SeqCst)),
                (_, Some(why)) if is_of_disk(&why) => {
                    goes_on();
                    std::thread::sleep(REST);
                }
                (other, _) => return Err(refused(format!("BLMOVE: {other:?}"))),
            }
        }
        Ok(())
    }
}

/// Cuts all connections at `door`: whoever waits there waits no longer.
///
/// # Errors
/// The server is gone, or does not do it.
pub fn hang_up(door: &Door) -> Result<()> {
    let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"].map(ToOwned::to_owned).to_vec();
    let told = Line::enter(door)?.ask(&[kill])?;
    told[0].error().map_or(Ok(()), |why| Err(refused(format!("CLIENT KILL: {why}"))))
}

#[cfg(test)]
mod tests {
    use weir_command::error::Error;
    use weir_io::ErrorKind as Kind;

    use super::*;

    #[test]
    fn only_a_disk_that_fails_or_is_full_may_refuse() {
        let told = |kind| {
            let error = Error::from(weir_io::Error::new(kind, "write", "log", "no"));
            String::from_utf8_lossy(error.text()).into_owned()
        };
        assert!([Kind::Device, Kind::NoSpace].map(told).iter().all(|why| is_of_disk(why)));
        let others = [Kind::Corruption, Kind::NotFound, Kind::Closed, Kind::Invalid, Kind::OutOfMemory];
        assert!(!others.map(told).iter().any(|why| is_of_disk(why)));
    }
}
