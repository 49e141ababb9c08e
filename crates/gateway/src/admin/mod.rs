//! The door for operators: metrics, health, and everything about tenants, over HTTP.
//!
//! `/metrics` is for Prometheus, `/healthz` for supervisors that restart a sick process, `/v1/` for `weir tenant` and
//! its kin. Bind it to loopback or to a network of your own, because it does not ask who its clients are.

pub mod api;
pub mod bill;
mod changes;
mod exposition;
pub mod kernel;
pub mod ledger;
pub mod metrics;
pub mod node;
pub mod operator;
pub mod waits;
pub mod wire;

use std::future::{Future, IntoFuture};
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{from_fn, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use self::bill::Bill;
use self::operator::Operator;

const INDEX: &str = "weir

/metrics                 metrics, for Prometheus
/healthz                 200 while requests are served
/v1/tenants              all tenants; weir tenant --help
/v1/tenants/NAME/backup  weir backup --help
/v1/tenants/NAME/why     what a tenant waits for, and why; weir why --help
/v1/restore              weir restore --help
/v1/recording            what the policies saw and decided
/v1/top                  what the tenants do now; weir top --help
/v1/ledger.csv           bytes by tenant and cause
/v1/bill, /v1/bill.csv   what tenants have used, by the hour; weir bill --help
";

/// An operators' door that listens, and serves once [`Admin::run`] is called.
pub struct Admin {
    listener: TcpListener,
    registry: Arc<Registry>,
    operator: Arc<dyn Operator>,
    bill: Option<Arc<Bill>>,
}

impl Admin {
    /// A door at `listener` that shows what is in `registry` and passes orders to `operator`.
    pub fn new(listener: TcpListener, registry: Registry, operator: Arc<dyn Operator>) -> Self {
        Self { listener, registry: Arc::new(registry), operator, bill: None }
    }

    /// Shows `bill` as well.
    #[must_use]
    pub fn with_bill(self, bill: Arc<Bill>) -> Self {
        Self { bill: Some(bill), ..self }
    }

    /// Serves for ever; dropping the future ends it.
    pub fn run(self) -> impl Future<Output = io::Result<()>> + Send {
        // On loopback nobody scrapes from elsewhere, and the name of a web page may lead there, so names are refused.
        let open = self.listener.local_addr().is_ok_and(|at| !at.ip().to_canonical().is_loopback());
        let shown = Router::new()
            .route("/", get(|| async { INDEX }))
            .route("/metrics", get(show_metrics))
            .with_state(self.registry)
            .layer(from_fn(move |request, next| api::no_pages(open, request, next)));
        // Health is no secret: the supervisor of a container may use any name.
        let router = Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .merge(shown)
            .merge(api::routes(self.operator))
            .merge(api::bill_routes(self.bill))
            .layer(map_response(api::as_problem));
        axum::serve(self.listener, router).into_future()
    }
}

async fn show_metrics(State(registry): State<Arc<Registry>>, headers: HeaderMap) -> Response {
    match exposition::exposition(&registry, &headers) {
        Ok((kind, text)) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
