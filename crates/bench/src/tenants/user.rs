//! A tenant of a server under test, and how to connect as one.

use serde_json::{Value, json};

use crate::Result;
use crate::child_server::ChildServer;
use crate::data::key;
use crate::wire::{self, Client};

/// Requests in a pipeline that loads data.
const LOAD_PIPELINE: u64 = 1000;

/// A tenant's name and its secret.
#[derive(Clone, Debug)]
pub struct User {
    /// Its name.
    pub name: String,
    secret: String,
}

impl User {
    /// Creates a tenant with `settings` of the operators' API.
    pub fn create(server: &ChildServer, name: &str, settings: &Value) -> Result<Self> {
        Self::create_at(server.admin(), name, settings)
    }

    /// The same at this port of operators.
    pub fn create_at(admin: u16, name: &str, settings: &Value) -> Result<Self> {
        Self::order_at(admin, &json!({ "name": name, "settings": settings }))
    }

    /// Creates the tenant of `order`, in words of the operators' API.
    pub fn order_at(admin: u16, order: &Value) -> Result<Self> {
        let answer: Value = serde_json::from_str(&wire::http_post(admin, "/v1/tenants", &order.to_string())?)?;
        let secret = answer["secret"].as_str().ok_or("the server told no secret")?;
        let name = order["name"].as_str().unwrap_or_default();
        Ok(Self { name: name.to_owned(), secret: secret.to_owned() })
    }

    /// Creates the tenants `prefix`0, `prefix`1 and so on.
    pub fn create_many(server: &ChildServer, prefix: &str, count: usize) -> Result<Vec<Self>> {
        (0..count).map(|number| Self::create(server, &format!("{prefix}{number}"), &json!({}))).collect()
    }

    /// The login options of Redis' own programs.
    pub fn login_args(&self) -> [&str; 4] {
        ["--user", &self.name, "-a", &self.secret]
    }

    /// The first command of a connection, encoded.
    pub fn login(&self) -> Vec<u8> {
        let mut request = Vec::new();
        wire::encode(&mut request, &[b"AUTH", self.name.as_bytes(), self.secret.as_bytes()]);
        request
    }

    /// A connection of this tenant at `port`.
    pub fn connect(&self, port: u16) -> Result<Client> {
        let mut client = Client::connect(port)?;
        client.call(&[b"AUTH", self.name.as_bytes(), self.secret.as_bytes()])?;
        Ok(client)
    }

    /// Stores `count` values of `bytes` bytes under the first keys.
    pub fn load(&self, port: u16, count: u64, bytes: usize) -> Result<()> {
        let mut client = self.connect(port)?;
        let value = vec![b'v'; bytes];
        for first in (0..count).step_by(LOAD_PIPELINE as usize) {
            let end = count.min(first + LOAD_PIPELINE);
            (first..end).for_each(|item| client.push(&[b"SET", &key(item), &value]));
            client.flush()?;
            for _ in first..end {
                if let wire::Reply::Line(line) = client.read()?
                    && line.starts_with('-')
                {
                    return Err(format!("{} was refused: {line}", self.name).into());
                }
            }
        }
        Ok(())
    }
}
