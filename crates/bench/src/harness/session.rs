//! A run in a process of its own: this very program, started with an order, which reports on standard output line by
//! line.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;

use serde::Serialize;

use super::children::Children;
use crate::Result;

/// The program that is started for a run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments before an order.
    pub arguments: Vec<String>,
}

impl Program {
    /// This very program, with a hidden command.
    ///
    /// # Errors
    /// Its path is not known.
    pub fn this(command: &[&str]) -> Result<Self> {
        let arguments = command.iter().map(|&word| word.to_owned()).collect();
        Ok(Self { path: std::env::current_exe()?, arguments })
    }
}

/// One line from child to parent.
pub trait Said: Sized {
    /// Parses a line; `None` if it is not ours, because a peer may print too.
    fn parse(text: &str) -> Option<Self>;
}

/// A running child; killed when dropped.
pub struct Session {
    child: Guard,
    lines: Lines<BufReader<ChildStdout>>,
    title: String,
}

struct Guard(Child, Arc<Children>);

impl Guard {
    /// Waits for a child that is about to end.
    fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.1.remove(self.0.id());
        self.0.wait()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Fails harmlessly if the child has ended already.
        let _ended = self.0.kill().and_then(|()| self.wait());
    }
}

impl Session {
    /// Starts `program` with `order`, which messages call `title`, as one of `children`.
    ///
    /// # Errors
    /// The child cannot be started.
    pub fn start(program: &Program, children: &Arc<Children>, order: &impl Serialize, title: String) -> Result<Self> {
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .arg(serde_json::to_string(order)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.path.display()))?;
        let lines = BufReader::new(child.stdout.take().ok_or("the child has no standard output")?).lines();
        children.add(child.id());
        Ok(Self { child: Guard(child, Arc::clone(children)), lines, title })
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Lets a child go on that waits for a line on its standard input.
    ///
    /// # Errors
    /// The child has no standard input.
    pub fn go(&mut self) -> Result<()> {
        let stdin = self.child.0.stdin.as_mut().ok_or("the child has no standard input")?;
        // A child that failed is gone; the read of its next line, which never comes, tells why.
        let _ = stdin.write_all(b"go\n");
        Ok(())
    }

    /// Waits for the next message of the child.
    ///
    /// # Errors
    /// The child ended instead.
    pub fn hear<L: Said>(&mut self) -> Result<L> {
        for line in self.lines.by_ref() {
            if let Some(line) = L::parse(&line?) {
                return Ok(line);
            }
        }
        let status = self.child.wait()?;
        Err(format!("{} ended with {status} and without a result", self.title).into())
    }

    /// Waits until the child has ended, and returns its exit status.
    ///
    /// # Errors
    /// Its output cannot be read, or it cannot be waited for.
    pub fn ended(&mut self) -> Result<ExitStatus> {
        // The child's output ends with the child. Until then others may end the child.
        self.lines.by_ref().try_for_each(|line| line.map(drop))?;
        Ok(self.child.wait()?)
    }

    /// Waits until the child has ended well.
    ///
    /// # Errors
    /// The child ended badly, or could not be waited for.
    pub fn end(mut self) -> Result<()> {
        let status = self.ended()?;
        if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", self.title).into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any line that begins with our word.
    struct Ours(String);

    impl Said for Ours {
        fn parse(text: &str) -> Option<Self> {
            text.strip_prefix("ours ").map(|rest| Ours(rest.to_owned()))
        }
    }

    /// A shell that is given the order as `$0`.
    fn start(script: &str) -> Session {
        let program = Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] };
        Session::start(&program, &Arc::default(), &7, "the test".into()).expect("there is a shell")
    }

    #[test]
    fn a_child_is_led_heard_and_waited_for() {
        let mut session = start("echo theirs; read word; echo ours $word $0");
        session.go().expect("it listens");
        assert_eq!(session.hear::<Ours>().expect("it speaks").0, "go 7");
        session.end().expect("it ends well");
    }

    #[test]
    fn a_child_that_ends_too_early_or_badly_is_an_error_with_a_name() {
        let silent = start("exit 3").hear::<Ours>().map(|ours| ours.0).expect_err("it says nothing").to_string();
        assert!(silent.starts_with("the test ended with") && silent.ends_with("without a result"), "{silent}");
        assert!(start("exit 3").end().expect_err("it ends badly").to_string().contains("exit status: 3"));
        assert!(!start("exit 3").ended().expect("it ends").success());
    }

    #[test]
    fn children_that_are_told_to_end_do_and_so_do_later_ones() {
        let children = Arc::new(Children::default());
        let program = Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), "read word".into()] };
        let start = || Session::start(&program, &children, &0, "the test".into()).expect("there is a shell");
        let running = start();
        children.end();
        assert!(running.end().is_err());
        assert!(start().end().is_err());
        assert!(children.are_ended());
    }
}
