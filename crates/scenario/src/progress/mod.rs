//! A bar for each run on a terminal, and a line now and then where standard error is a file.

mod lines;

use std::io::IsTerminal;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// All bars of a command.
pub struct Progress(MultiProgress);

impl Default for Progress {
    fn default() -> Self {
        let shown = std::io::stderr().is_terminal();
        Self(MultiProgress::with_draw_target(if shown {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::term_like_with_hz(Box::new(lines::Lines::default()), 1)
        }))
    }
}

impl Progress {
    /// A bar called `name` that is full at `len`.
    pub fn bar(&self, name: &str, len: u64) -> ProgressBar {
        let style = ProgressStyle::with_template(
            "{prefix:>18.bold} {bar:32.cyan/dim} {pos:>5}/{len} s  {msg}, about {eta} to go",
        )
        .unwrap_or_else(|_| ProgressStyle::default_bar());
        self.0.add(ProgressBar::new(len).with_style(style).with_prefix(name.to_owned()))
    }
}
