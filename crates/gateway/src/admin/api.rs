//! The operators' API over HTTP: `/v1/…`, JSON in and out.
//!
//! Whoever reaches this API may do everything, so it must refuse requests that a browser was made to send. A page of
//! some other site can send requests to loopback, either directly (then with an `Origin`) or under a name of its own
//! that it points to loopback (then with that name as `Host`). Both are refused.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bill::Bill;
use super::operator::{Operator, Reason, Refusal, When};
use super::wire;
use super::wire::{BackupOrder, Change, NewTenant, Problem, RestoreOrder, Tenants};

/// Longest body of a request, in bytes. Bodies hold only names and numbers.
pub const BODY_BYTES_MAX: usize = 64 << 10;

type Node = Arc<dyn Operator>;
type Answer = Result<Response, Refusal>;

/// The routes.
pub fn routes(node: Node) -> Router {
    Router::new()
        .route("/v1/tenants", get(list).post(create))
        .route("/v1/tenants/{name}", get(show).patch(alter).delete(drop_tenant))
        .route("/v1/tenants/{name}/backup", post(backup))
        .route("/v1/tenants/{name}/why", get(why))
        .route("/v1/restore", post(restore))
        .route("/v1/recording", get(recording))
        .route("/v1/top", get(top))
        .route("/v1/ledger.csv", get(ledger))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(no_browsers))
        .with_state(node)
}

/// The routes of the bill. They answer "not found" if there is no bill.
pub(super) fn bill_routes(bill: Option<Arc<Bill>>) -> Router {
    Router::new()
        .route("/v1/bill", get(bill_json))
        .route("/v1/bill.csv", get(bill_csv))
        .layer(from_fn(no_browsers))
        .with_state(bill)
}

async fn bill_json(State(bill): State<Option<Arc<Bill>>>, uri: Uri) -> Answer {
    json(StatusCode::OK, &lines_of(bill, &uri).await?)
}

async fn bill_csv(State(bill): State<Option<Arc<Bill>>>, uri: Uri) -> Answer {
    let text = lines_of(bill, &uri).await?.csv();
    Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], text).into_response())
}

/// What was used in the hours that the query names: `from=SECONDS&to=SECONDS`, since 1970. Without a query: all hours.
async fn lines_of(bill: Option<Arc<Bill>>, uri: &Uri) -> Result<wire::Bill, Refusal> {
    let bill = bill.ok_or_else(|| Refusal::new(Reason::NotFound, "this server keeps no bill"))?;
    let (mut from, mut to) = (0, u64::MAX);
    for pair in uri.query().unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
        let number = |text: &str| text.parse::<u64>().ok();
        match pair.split_once('=').map(|(key, value)| (key, number(value))) {
            Some(("from", Some(seconds))) => from = seconds,
            Some(("to", Some(seconds))) => to = seconds,
            _ => {
                let message =
                    format!("cannot understand `{pair}`: write from=SECONDS or to=SECONDS, counted from 1970");
                return Err(Refusal::new(Reason::Invalid, message));
            }
        }
    }
    Ok(bill.lines(from, to).await?)
}

/// Refuses requests that look as if a browser was made to send them.
pub(super) async fn no_browsers(request: Request, next: Next) -> Response {
    guard(from_browser(request.headers()), request, next).await
}

/// Like [`no_browsers`], but takes any name in the Host header if the door is `open` to other machines, because
/// Prometheus may know it by name. A page whose name leads here could then read what every machine of that network may
/// read, but it can give no orders.
pub(super) async fn no_pages(open: bool, request: Request, next: Next) -> Response {
    let headers = request.headers();
    guard(if open { from_page(headers) } else { from_browser(headers) }, request, next).await
}

async fn guard(why: Option<String>, request: Request, next: Next) -> Response {
    match why {
        None => next.run(request).await,
        Some(why) => problem(StatusCode::FORBIDDEN, why),
    }
}

/// Turns errors that the framework itself answers (no such page, wrong method, long body) into [`Problem`]s, too.
pub(super) async fn as_problem(response: Response) -> Response {
    let status = response.status();
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !(status.is_client_error() || status.is_server_error()) || is_json {
        return response;
    }
    let error = match status {
        StatusCode::NOT_FOUND => "there is nothing at this address: GET / lists all addresses".to_owned(),
        StatusCode::METHOD_NOT_ALLOWED => "this address does not take this method".to_owned(),
        StatusCode::PAYLOAD_TOO_LARGE => format!("the body is too long: at most {BODY_BYTES_MAX} bytes are possible"),
        other => other.canonical_reason().unwrap_or("the request failed").to_owned(),
    };
    let mut problem = problem(status, error);
    if let Some(allowed) = response.headers().get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allowed.clone());
    }
    problem
}

/// Why a request looks as if a browser was made to send it; `None` if it does not.
fn from_browser(headers: &HeaderMap) -> Option<String> {
    if let Some(why) = from_page(headers) {
        return Some(why);
    }
    let host = headers.get(header::HOST).map(|host| host.to_str().unwrap_or(""));
    match host {
        Some(host) if is_plain_address(host) => None,
        _ => Some(
            "the Host header must be an address or `localhost`, not a name: call http://127.0.0.1:PORT/".to_owned(),
        ),
    }
}

/// Why a request looks as if it came from a page of another origin; `None` if it does not.
fn from_page(headers: &HeaderMap) -> Option<String> {
    let has_origin = headers.contains_key(header::ORIGIN);
    has_origin.then(|| "requests of web pages (with an Origin header) are refused".to_owned())
}

/// Whether `host` (a `Host` header) is a literal address or `localhost`. A name would be whatever its owner says.
fn is_plain_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

async fn list(State(node): State<Node>) -> Answer {
    json(StatusCode::OK, &Tenants { tenants: node.tenants(), sold: node.sold() })
}

async fn show(State(node): State<Node>, Path(name): Path<String>) -> Answer {
    json(StatusCode::OK, &node.tenant(&name)?)
}

async fn why(State(node): State<Node>, Path(name): Path<String>, uri: Uri) -> Answer {
    let query = uri.query().unwrap_or("ago=0");
    let wanted = || {
        Refusal::new(
            Reason::Invalid,
            format!("cannot understand `{query}`: write ago=SECONDS, or at=SECONDS counted from 1970"),
        )
    };
    let (key, seconds) = query.split_once('=').ok_or_else(wanted)?;
    let seconds = seconds.parse().map_err(|_| wanted())?;
    let when = match key {
        "ago" => When::Ago(seconds),
        "at" => When::At(seconds),
        _ => return Err(wanted()),
    };
    json(StatusCode::OK, &node.why(&name, when)?)
}

async fn recording(State(node): State<Node>) -> Answer {
    Ok(([(header::CONTENT_TYPE, "application/json")], node.recording().await?).into_response())
}

async fn create(State(node): State<Node>, headers: HeaderMap, body: Bytes) -> Answer {
    let order: NewTenant = parse(&headers, &body)?;
    json(StatusCode::CREATED, &node.create(order).await?)
}

async fn alter(State(node): State<Node>, Path(name): Path<String>, headers: HeaderMap, body: Bytes) -> Answer {
    let change: Change = parse(&headers, &body)?;
    json(StatusCode::OK, &node.alter(name, change).await?)
}

async fn drop_tenant(State(node): State<Node>, Path(name): Path<String>) -> Answer {
    node.drop_tenant(name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn backup(State(node): State<Node>, Path(name): Path<String>, headers: HeaderMap, body: Bytes) -> Answer {
    let order: BackupOrder = parse(&headers, &body)?;
    json(StatusCode::CREATED, &node.backup(name, order).await?)
}

async fn restore(State(node): State<Node>, headers: HeaderMap, body: Bytes) -> Answer {
    let order: RestoreOrder = parse(&headers, &body)?;
    json(StatusCode::CREATED, &node.restore(order).await?)
}

async fn top(State(node): State<Node>) -> Answer {
    json(StatusCode::OK, &node.top())
}

async fn ledger(State(node): State<Node>) -> Answer {
    Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], node.ledger_csv().await?).into_response())
}

/// Parses a body of JSON. The headers must say that it is JSON, because a form of a web page cannot say that.
fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(Refusal::new(Reason::Invalid, "send JSON, with the header Content-Type: application/json"));
    }
    serde_json::from_slice(body)
        .map_err(|error| Refusal::new(Reason::Invalid, format!("the body cannot be used: {}", unsaid(&error))))
}

/// Describes what is wrong with a body, without the wrong value: it may be a secret (S4).
fn unsaid(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(", expected ") {
        Some((what, expected)) if what.starts_with("invalid ") => {
            let kind: Vec<&str> = what.splitn(3, [' ', ':']).take(2).collect();
            format!("{}, expected {expected}", kind.join(" "))
        }
        _ => text,
    }
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Answer {
    let mut text = serde_json::to_string(value).map_err(|error| Refusal::new(Reason::Failed, error.to_string()))?;
    text.push('\n');
    Ok((status, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}

fn problem(status: StatusCode, error: String) -> Response {
    let response = json(status, &Problem { error });
    response.unwrap_or_else(|_| status.into_response())
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.reason {
            Reason::Invalid => StatusCode::BAD_REQUEST,
            Reason::NotFound => StatusCode::NOT_FOUND,
            Reason::Conflict => StatusCode::CONFLICT,
            Reason::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        problem(status, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_addresses() {
        for plain in ["127.0.0.1", "127.0.0.1:6380", "[::1]", "[::1]:6380", "localhost", "LOCALHOST:1", "10.0.0.1:5"] {
            assert!(is_plain_address(plain), "{plain}");
        }
        for name in [
            "",
            ":",
            "evil.example",
            "evil.example:6380",
            "127.0.0.1.evil.example",
            "localhost.",
            "localhost.evil.example:1",
        ] {
            assert!(!is_plain_address(name), "{name}");
        }
    }
}
