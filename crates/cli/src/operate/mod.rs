//! Commands for the operator of a running server.

pub mod backup;
pub mod bill;
pub mod client;
mod moment;
pub mod restore;
pub mod tenant;
pub mod why;

/// The result of a command, its error in words for the person at the terminal.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A secret from the command line; `-` reads it from standard input, where nobody else on the machine can see it.
pub fn secret(given: Option<String>) -> Outcome<Option<String>> {
    if given.as_deref() != Some("-") {
        return Ok(given);
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let secret = line.trim_end_matches(['\n', '\r']);
    if secret.is_empty() { Err("standard input holds no secret".into()) } else { Ok(Some(secret.to_owned())) }
}

/// Shows a generated secret, the only time it can be shown.
fn show_secret(name: &str, secret: Option<&str>) {
    if let Some(secret) = secret {
        println!("secret   {secret}");
        println!("\nThis is shown once: the server keeps only a hash. Clients log in with: AUTH {name} SECRET");
    }
}
