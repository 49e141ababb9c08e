//! Standard output and standard error. A reader that goes away (`weir bill | head`) loses the rest, and ends nothing
//! else.
//!
//! Commands print by these macros and not by those of the standard library, which panic if nobody reads the output any
//! more.

use std::fmt;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::process;

/// Prints `text` to standard output. If nobody reads it any more, the text is lost, and the command goes on: it may
/// still have a result to store. If it cannot be written for another reason, such as a full disk, the command fails.
pub fn print(text: fmt::Arguments<'_>) {
    judge(stdout().write_fmt(text));
}

/// Prints `text` to standard error. If it cannot be written, there is no other place to say so: the text is lost, and
/// the command goes on.
pub fn eprint(text: fmt::Arguments<'_>) {
    let _ = stderr().write_fmt(text);
}

/// Writes `bytes` to standard output, as `print` does with text.
pub fn write(bytes: &[u8]) {
    let mut out = stdout();
    judge(out.write_all(bytes).and_then(|()| out.flush()));
}

fn judge(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprint(format_args!("weir: cannot write to standard output: {error}\n"));
        process::exit(1);
    }
}

/// Prints to standard output, and goes on if nobody reads that any more.
#[macro_export]
macro_rules! print {
    ($($text:tt)+) => {
        $crate::out::print(format_args!($($text)+))
    };
}

/// Prints a line to standard output, and goes on if nobody reads that any more.
#[macro_export]
macro_rules! println {
    ($($text:tt)+) => {
        $crate::out::print(format_args!("{}\n", format_args!($($text)+)))
    };
}

/// Prints to standard error, and goes on if nobody reads that any more.
#[macro_export]
macro_rules! eprint {
    ($($text:tt)+) => {
        $crate::out::eprint(format_args!($($text)+))
    };
}

/// Prints a line to standard error, and goes on if nobody reads that any more.
#[macro_export]
macro_rules! eprintln {
    ($($text:tt)+) => {
        $crate::out::eprint(format_args!("{}\n", format_args!($($text)+)))
    };
}
