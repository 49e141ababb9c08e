//! A client of the operators' API of a running server.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::Response;
use ureq::{Agent, Body};
use weir_gateway::admin::wire::Problem;

use super::Outcome;

/// Which server to talk to.
#[derive(Clone, Debug, Args)]
pub struct Server {
    /// The operators' address of the running server, as `weir serve --admin` has it; an http:// address is taken, too
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6380", env = "WEIR_ADMIN")]
    admin: String,
}

/// Longest answer, in bytes; a longer one does not come from a Weir server. It allows some kilobytes for each of a
/// hundred thousand tenants.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Loopback answers at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client of one server.
pub struct Client {
    agent: Agent,
    address: SocketAddr,
}

impl Server {
    /// A client of this server. It sends nothing yet.
    pub fn client(&self) -> Outcome<Client> {
        let addresses = host_and_port(&self.admin).to_socket_addrs();
        let addresses = addresses.map_err(|error| format!("--admin {}: not a HOST:PORT ({error})", self.admin))?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
        let address = *address.ok_or_else(|| format!("--admin {}: this name has no address", self.admin))?;
        // A proxy that the environment names is for other servers.
        let config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .build();
        Ok(Client { agent: config.into(), address })
    }
}

/// The server's log names its metrics by their URL, which is what an operator copies.
fn host_and_port(admin: &str) -> &str {
    let Some(rest) = admin.strip_prefix("http://") else { return admin };
    rest.split_once('/').map_or(rest, |(host_and_port, _)| host_and_port)
}

impl Client {
    /// `GET path`.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        self.understood(self.agent.get(self.url(path)).call())
    }

    /// `GET path`; gives the body as it is.
    pub fn get_bytes(&self, path: &str) -> Outcome<Vec<u8>> {
        self.answer(self.agent.get(self.url(path)).call())
    }

    /// `POST path` with a body.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Outcome<T> {
        let request = self.agent.post(self.url(path)).content_type("application/json");
        self.understood(request.send(&serde_json::to_vec(body)?[..]))
    }

    /// `PATCH path` with a body.
    pub fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Outcome<T> {
        let request = self.agent.patch(self.url(path)).content_type("application/json");
        self.understood(request.send(&serde_json::to_vec(body)?[..]))
    }

    /// `DELETE path`.
    pub fn delete(&self, path: &str) -> Outcome {
        self.answer(self.agent.delete(self.url(path)).call()).map(drop)
    }

    /// The URL of `path`, by address: the server refuses a name, as it might be a trick played on a browser.
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn understood<T: DeserializeOwned>(&self, response: Result<Response<Body>, ureq::Error>) -> Outcome<T> {
        let bytes = self.answer(response)?;
        let parsed = serde_json::from_slice(&bytes);
        parsed.map_err(|error| {
            format!("the server at {} speaks differently: is it the same version? ({error})", self.address).into()
        })
    }

    /// The body of a successful response.
    fn answer(&self, response: Result<Response<Body>, ureq::Error>) -> Outcome<Vec<u8>> {
        let address = self.address;
        let mut response = response.map_err(|error| {
            format!("no server answers at {address} ({error}): start one with `weir serve`, or name its operators' address with --admin HOST:PORT")
        })?;
        let bytes = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        if response.status().is_success() {
            return Ok(bytes);
        }
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => Err(problem.error.into()),
            Err(_) => Err(format!(
                "{address} answered {}: is it the operators' address of a weir of this version?",
                response.status()
            )
            .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_copied_from_the_log() {
        for admin in ["[::1]:6380", "http://[::1]:6380", "http://[::1]:6380/", "http://[::1]:6380/metrics"] {
            let client = Server { admin: admin.to_owned() }.client().expect(admin);
            assert_eq!(client.address.to_string(), "[::1]:6380");
        }
        for admin in ["http://", "127.0.0.1"] {
            let error = Server { admin: admin.to_owned() }.client().err().expect(admin);
            assert!(error.to_string().starts_with(&format!("--admin {admin}: not a HOST:PORT")), "{error}");
        }
    }
}
