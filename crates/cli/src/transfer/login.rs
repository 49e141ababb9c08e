//! How to reach a tenant through the clients' port.

use clap::Args;
use weir_transfer::address::Address;

use crate::operate::{Outcome, secret};

/// Where a server is, and a tenant's secret.
#[derive(Clone, Debug, Args)]
pub struct Login {
    /// Where clients of the server connect: its `weir serve --listen`
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379", env = "WEIR_SERVER")]
    server: String,
    /// The tenant's secret; `-` reads it from standard input
    #[arg(long, value_name = "S", env = "WEIR_SECRET", hide_env_values = true)]
    secret: Option<String>,
}

impl Login {
    /// The server, and the login of `tenant`. `default` may have no secret.
    pub fn address(&self, tenant: &str) -> Outcome<Address> {
        let address = Address::plain(&self.server).map_err(|error| format!("--server: {error}"))?;
        match secret(self.secret.clone())? {
            Some(password) => Ok(Address { user: tenant.to_owned(), password, ..address }),
            None if tenant == "default" => Ok(address),
            None => Err(format!("give the secret of {tenant} with --secret, or in WEIR_SECRET").into()),
        }
    }
}
