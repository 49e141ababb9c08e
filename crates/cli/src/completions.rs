//! `weir completions`: scripts that let a shell complete our commands.

use clap::{Args, ValueEnum};
use weir_scenario::out;

/// Prints a script that teaches a shell to complete weir's commands and options.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  weir completions bash > ~/.local/share/bash-completion/completions/weir
  weir completions zsh > \"${fpath[1]}/_weir\"
  weir completions fish > ~/.config/fish/completions/weir.fish";

/// The shells that we have a script for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    /// GNU Bash, with the bash-completion package
    Bash,
    /// Z shell
    Zsh,
    /// Fish
    Fish,
}

impl Completions {
    /// Prints the script for `command`.
    pub fn run(self, command: &mut clap::Command) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        };
        // Into memory first: the generator panics if it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(shell, command, "weir", &mut script);
        out::write(&script);
        Ok(())
    }
}
