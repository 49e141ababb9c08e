//! Standard output. A reader that goes away (`weir bill | head`) loses the rest, and ends nothing else.

use std::fmt;
use std::io::{ErrorKind, Write, stdout};
use std::process;

/// Prints `text` to standard output. If nobody reads it any more, the text is lost, and the command goes on: it may
/// still have a result to store. If it cannot be written for another reason, such as a full disk, the command fails.
pub fn print(text: fmt::Arguments<'_>) {
    if let Err(error) = stdout().write_fmt(text)
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("weir: cannot write to standard output: {error}");
        process::exit(1);
    }
}

/// Whether a command failed only because nobody reads its output any more.
pub fn is_unread(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// The standard library's macro panics if nobody reads the output any more.
macro_rules! print {
    ($($text:tt)+) => {
        $crate::out::print(format_args!($($text)+))
    };
}

/// See `print`.
macro_rules! println {
    ($($text:tt)+) => {
        $crate::out::print(format_args!("{}\n", format_args!($($text)+)))
    };
}
