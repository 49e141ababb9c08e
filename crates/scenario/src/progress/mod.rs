//! A bar for each run on a terminal, and a line now and then if standard error is a file. No line is longer than the
//! terminal is wide: a line that wraps would be drawn again below itself.

mod lines;

use std::io::IsTerminal;

use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// All bars of a command.
pub struct Progress(MultiProgress);

impl Default for Progress {
    fn default() -> Self {
        Self(MultiProgress::with_draw_target(target()))
    }
}

impl Progress {
    /// A bar called `name` that is full at `len`. Its message is best made by [`fit`].
    pub fn bar(&self, name: &str, len: u64) -> ProgressBar {
        let line = Line::of(columns());
        let style = ProgressStyle::with_template(line.template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.0.add(ProgressBar::new(len).with_style(style).with_prefix(name.to_owned()))
    }
}

/// A spinner for runs that report progress in words.
pub fn spinner() -> ProgressBar {
    let style =
        ProgressStyle::with_template("{spinner} {wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::with_draw_target(None, target()).with_style(style)
}

/// As many of `parts`, from the first on, as the line of a bar has room for. Each is shown whole: half a number is a
/// wrong number.
pub fn fit(parts: &[String]) -> String {
    joined(parts, columns().saturating_sub(Line::of(columns()).fixed))
}

fn joined(parts: &[String], room: usize) -> String {
    let mut text = String::new();
    for part in parts {
        let longer = if text.is_empty() { part.clone() } else { format!("{text}  {part}") };
        if longer.chars().count() > room {
            break;
        }
        text = longer;
    }
    text
}

/// How a bar is drawn.
struct Line {
    template: &'static str,
    /// Characters of the line that are not the message.
    fixed: usize,
}

impl Line {
    /// A line for a terminal of this many columns: parts that do not fit beside a message are left out.
    fn of(columns: usize) -> Self {
        let (template, fixed) = match columns {
            ..100 => ("{prefix:>18.bold} {pos:>5}/{len:<5} s  {wide_msg}", 34),
            100..150 => ("{prefix:>18.bold} {bar:10.cyan/dim} {pos:>5}/{len:<5} s  {wide_msg} {eta:>4} to go", 56),
            150.. => ("{prefix:>18.bold} {bar:32.cyan/dim} {pos:>5}/{len:<5} s  {wide_msg} about {eta:>4} to go", 84),
        };
        Self { template, fixed }
    }
}

/// Standard error: a terminal, or a file that gets a line now and then.
fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr_with_hz(5)
    } else {
        ProgressDrawTarget::term_like_with_hz(Box::new(lines::Lines::default()), 1)
    }
}

/// Columns that standard error has now.
fn columns() -> usize {
    let terminal = Term::stderr();
    let size = if std::io::stderr().is_terminal() { terminal.size_checked() } else { None };
    usize::from(size.map_or(lines::COLUMNS, |(_, columns)| columns))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// A terminal that remembers what is written on it.
    #[derive(Clone, Debug)]
    struct Paper {
        columns: u16,
        text: Arc<Mutex<String>>,
    }

    impl TermLike for Paper {
        fn width(&self) -> u16 {
            self.columns
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
            self.write_str(line)?;
            self.write_str("\n")
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.text.lock().expect("no panic").push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.text.lock().expect("no panic").clear();
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines of a bar with this message on a terminal with this many columns.
    fn drawn(columns: usize, message: &str) -> Vec<String> {
        let terminal = Paper { columns: columns as u16, text: Arc::default() };
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let style = ProgressStyle::with_template(Line::of(columns).template).expect("a template");
        let bar = ProgressBar::with_draw_target(Some(99_999), target).with_style(style).with_prefix("rocksdb-autotune");
        bar.set_position(12_345);
        terminal.text.lock().expect("no panic").clear();
        bar.set_message(message.to_owned());
        bar.force_draw();
        let shown = console::strip_ansi_codes(&terminal.text.lock().expect("no panic")).into_owned();
        shown.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn a_bar_is_one_line_at_every_width_and_its_parts_are_whole() {
        let parts = ["p99  12.34 ms", "▁▂▃▄▅▆▇█▁▂▃▄▅▆▇█▁▂▃▄▅▆▇█", "late 100 %", "level 0 1234 runs"].map(str::to_owned);
        let mut before = 0;
        for columns in 60..=250 {
            let message = joined(&parts, columns - Line::of(columns).fixed);
            let lines = drawn(columns, &message);
            assert!(lines.len() == 1 && lines[0].chars().count() <= columns, "{columns}: {lines:?}");
            assert!(lines[0].contains(&message) && lines[0].contains("12345/99999 s"), "{columns}: {lines:?}");
            assert!(message.starts_with("p99  12.34 ms") || columns < 50, "{columns}: {message}");
            before = before.max(message.chars().count());
        }
        assert_eq!(before, parts.join("  ").chars().count(), "a wide terminal shows everything");
        // A message that was not made to fit ends where the line does.
        for columns in 60..=250 {
            assert_eq!(drawn(columns, &"much ".repeat(60)).len(), 1, "{columns}");
        }
    }
}
