//! Progress in lines, for a log: every half minute, the bars that have moved. So a run of an hour whose output goes to
//! a file is not silent.
#![allow(clippy::disallowed_methods, reason = "a person reads it, in his own time; no scenario does")]

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::TermLike;

const EVERY: Duration = Duration::from_secs(30);
/// Columns of a line; longer ones are cut.
pub(super) const COLUMNS: u16 = 160;

/// A terminal that shows only these lines.
#[derive(Debug)]
pub(super) struct Lines(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Lines of the drawing that is under way.
    drawn: Vec<String>,
    told: Told,
    told_at: Instant,
}

/// What was shown last.
#[derive(Debug, Default)]
struct Told(Vec<String>);

impl Told {
    /// Returns those of the lines `drawn` that are to be shown now.
    fn next(&mut self, drawn: Vec<String>) -> Vec<String> {
        let new = drawn.iter().filter(|line| !self.0.contains(line)).cloned().collect();
        self.0 = drawn;
        new
    }
}

impl Default for Lines {
    fn default() -> Self {
        Self(Mutex::new(State { drawn: Vec::new(), told: Told::default(), told_at: Instant::now() }))
    }
}

impl TermLike for Lines {
    fn width(&self) -> u16 {
        COLUMNS
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.write_str(line)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        let line = text.trim_end();
        if !line.is_empty() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).drawn.push(line.to_owned());
        }
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let drawn = std::mem::take(&mut state.drawn);
        if state.told_at.elapsed() >= EVERY {
            state.told_at = Instant::now();
            state.told.next(drawn).iter().for_each(|line| eprintln!("{line}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_moved_is_not_said_again() {
        let lines = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let mut told = Told::default();
        assert_eq!(told.next(lines(&["a 1", "b 0"])), ["a 1", "b 0"]);
        assert_eq!(told.next(lines(&["a 2", "b 0"])), ["a 2"]);
        assert!(told.next(lines(&["a 2", "b 0"])).is_empty());
    }
}
