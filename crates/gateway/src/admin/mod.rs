//! The door for operators: metrics and health over HTTP.
//!
//! `/metrics` is for Prometheus, `/healthz` for whoever restarts what is ill. Bind it to loopback or to a network of
//! your own: it asks nobody who he is.

pub mod kernel;
pub mod ledger;
pub mod metrics;

use std::future::{Future, IntoFuture};
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use weir_node::Node;

/// The type that Prometheus asks for.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const INDEX: &str = "weir\n\n/metrics        for Prometheus\n/healthz        200 while requests are served\n/v1/ledger.csv  bytes by tenant and cause\n";

/// An operators' door that listens, and serves once [`Admin::run`] is called.
pub struct Admin {
    listener: TcpListener,
    registry: Arc<Registry>,
    node: Arc<Node>,
}

impl Admin {
    /// Shows what is in `registry`, and the ledger of `node`, at `listener`.
    pub fn new(listener: TcpListener, registry: Registry, node: Arc<Node>) -> Self {
        Self { listener, registry: Arc::new(registry), node }
    }

    /// Serves for ever; dropping the future ends it.
    pub fn run(self) -> impl Future<Output = io::Result<()>> + Send {
        let router = Router::new()
            .route("/", get(|| async { INDEX }))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/metrics", get(show_metrics))
            .with_state(self.registry)
            .route("/v1/ledger.csv", get(show_ledger).with_state(self.node));
        axum::serve(self.listener, router).into_future()
    }
}

async fn show_ledger(State(node): State<Arc<Node>>) -> Response {
    ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], ledger::csv(&node)).into_response()
}

async fn show_metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
