//! The operators' API over a real socket, with a node that only remembers its orders.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use prometheus_client::registry::Registry;
use weir_gateway::admin::operator::{Doing, Operator, Reason, Refusal, When};
use weir_gateway::admin::{Admin, wire};

/// Remembers orders; knows one tenant, `shop`.
#[derive(Default)]
struct Fake(Mutex<Vec<String>>);

fn shop() -> wire::Tenant {
    let settings = wire::Settings { rcu: Some(5), ..wire::Settings::default() };
    wire::Tenant {
        id: 2,
        name: "shop".into(),
        partitions: 1,
        awake: 0,
        engine: None,
        log: None,
        memory_bytes: None,
        has_secret: true,
        users: Vec::new(),
        settings,
    }
}

impl Fake {
    fn told<T: Send + 'static>(&self, order: String, answer: Result<T, Refusal>) -> Doing<T> {
        self.0.lock().expect("no panic").push(order);
        Box::pin(async move { answer })
    }
}

impl Operator for Fake {
    fn tenants(&self) -> Vec<wire::Tenant> {
        vec![shop()]
    }

    fn sold(&self) -> wire::Sold {
        wire::Sold::default()
    }

    fn tenant(&self, name: &str) -> Result<wire::Tenant, Refusal> {
        if name == "shop" { Ok(shop()) } else { Err(Refusal::new(Reason::NotFound, format!("no tenant `{name}`"))) }
    }

    fn create(&self, order: wire::NewTenant) -> Doing<wire::Changed> {
        let answer = match order.name.as_str() {
            "shop" => Err(Refusal::new(Reason::Conflict, "there is a shop")),
            _ => Ok(wire::Changed { tenant: shop(), secret: Some("told-once".into()), sold: wire::Sold::default() }),
        };
        self.told(format!("create {} {:?} {:?}", order.name, order.partitions, order.settings.rcu), answer)
    }

    fn alter(&self, name: String, change: wire::Change) -> Doing<wire::Changed> {
        let answer = Ok(wire::Changed { tenant: shop(), secret: None, sold: wire::Sold::default() });
        self.told(format!("alter {name} {:?}", change.settings.suspended), answer)
    }

    fn drop_tenant(&self, name: String) -> Doing<()> {
        self.told(format!("drop {name}"), Ok(()))
    }

    fn backup(&self, name: String, order: wire::BackupOrder) -> Doing<wire::BackupDone> {
        self.told(format!("backup {name} {}", order.dir), Ok(wire::BackupDone { partitions: 1, files: 2, bytes: 3 }))
    }

    fn restore(&self, order: wire::RestoreOrder) -> Doing<wire::Changed> {
        self.told(format!("restore {} {}", order.dir, order.name), Err(Refusal::new(Reason::Failed, "disk full")))
    }

    fn top(&self) -> wire::Top {
        wire::Top { connections: 9, ..wire::Top::default() }
    }

    fn why(&self, _: &str, when: When) -> Result<wire::Why, Refusal> {
        let why = Some(format!("normal: {when:?}"));
        Ok(wire::Why {
            felt: String::new(),
            partitions: vec![wire::PartitionWhy { partition: 7, why }],
            slow_replies: Vec::new(),
        })
    }

    fn recording(&self) -> Doing<String> {
        Box::pin(async { Ok("{\"ticks\":[]}".into()) })
    }

    fn ledger_csv(&self) -> Doing<String> {
        Box::pin(async { Ok("tenant,bytes\n".into()) })
    }
}

/// The API on a port of its own, for as long as the process lives.
fn start() -> (SocketAddr, Arc<Fake>) {
    start_at("127.0.0.1:0")
}

fn start_at(bound: &'static str) -> (SocketAddr, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    let operator: Arc<dyn Operator> = fake.clone();
    let (tell, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind(bound).await.expect("a port");
            tell.send(listener.local_addr().expect("an address")).expect("the test waits");
            Admin::new(listener, Registry::default(), operator).run().await
        })
    });
    (address.recv().expect("it listens"), fake)
}

/// Status and body.
fn call(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let host = if head.contains("Host:") { "" } else { "Host: 127.0.0.1\r\n" };
    let len = body.len();
    let (line, headers) = head.split_once('\n').unwrap_or((head, ""));
    let headers: String = headers.lines().map(|header| format!("{header}\r\n")).collect();
    let request = format!("{line} HTTP/1.1\r\n{host}{headers}Content-Length: {len}\r\nConnection: close\r\n\r\n{body}");
    // The server may answer, and close, before it has read everything.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("text");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

const JSON: &str = "Content-Type: application/json";

#[test]
fn orders_reach_the_node_and_answers_the_operator() {
    let (address, fake) = start();
    let (status, body) = call(address, "GET /v1/tenants", "");
    assert!(status == 200 && body.contains("\"name\":\"shop\"") && body.contains("\"rcu\":5"), "{status} {body}");
    assert_eq!(call(address, "GET /v1/tenants/shop", "").0, 200);
    assert_eq!(call(address, "GET /v1/tenants/none", ""), (404, "{\"error\":\"no tenant `none`\"}\n".to_owned()));
    let (status, body) =
        call(address, &format!("POST /v1/tenants\n{JSON}"), r#"{"name":"new","partitions":3,"settings":{"rcu":7}}"#);
    assert!(status == 201 && body.contains("told-once"), "{status} {body}");
    assert_eq!(call(address, &format!("POST /v1/tenants\n{JSON}"), r#"{"name":"shop"}"#).0, 409);
    let (status, _) = call(address, &format!("PATCH /v1/tenants/shop\n{JSON}"), r#"{"settings":{"suspended":true}}"#);
    assert_eq!(status, 200);
    assert_eq!(call(address, "DELETE /v1/tenants/shop", "").0, 204);
    assert_eq!(call(address, &format!("POST /v1/tenants/shop/backup\n{JSON}"), r#"{"dir":"/b"}"#).0, 201);
    let (status, body) = call(address, &format!("POST /v1/restore\n{JSON}"), r#"{"dir":"/b","name":"two"}"#);
    assert!(status == 500 && body.contains("disk full"), "{status} {body}");
    let (status, body) = call(address, "GET /v1/tenants/shop/why?ago=30", "");
    assert!(status == 200 && body.contains("normal: Ago(30)"), "{status} {body}");
    assert!(call(address, "GET /v1/tenants/shop/why", "").1.contains("normal: Ago(0)"));
    assert!(call(address, "GET /v1/tenants/shop/why?at=1700000000", "").1.contains("normal: At(1700000000)"));
    for query in ["ago=x", "at=-1", "since=5", "ago"] {
        assert_eq!(call(address, &format!("GET /v1/tenants/shop/why?{query}"), "").0, 400, "{query}");
    }
    assert_eq!(call(address, "GET /v1/recording", ""), (200, "{\"ticks\":[]}".to_owned()));
    assert!(call(address, "GET /v1/top", "").1.contains("\"connections\":9"));
    assert_eq!(call(address, "GET /v1/ledger.csv", ""), (200, "tenant,bytes\n".to_owned()));
    let told = fake.0.lock().expect("no panic").clone();
    let expected = [
        "create new Some(3) Some(7)",
        "create shop None None",
        "alter shop Some(true)",
        "drop shop",
        "backup shop /b",
        "restore /b two",
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_a_browser_could_be_made_to_send_is_refused() {
    let (address, fake) = start();
    let body = r#"{"name":"new"}"#;
    for header in ["Origin: https://evil.example", "Origin: null", "Host: evil.example", "Host: evil.example:6380"] {
        assert_eq!(call(address, &format!("POST /v1/tenants\n{JSON}\n{header}"), body).0, 403, "{header}");
        assert_eq!(call(address, &format!("GET /v1/tenants\n{header}"), "").0, 403, "{header}");
        assert_eq!(call(address, &format!("DELETE /v1/tenants/shop\n{header}"), "").0, 403, "{header}");
        assert_eq!(call(address, &format!("GET /metrics\n{header}"), "").0, 403, "{header}");
        assert_eq!(call(address, &format!("GET /\n{header}"), "").0, 403, "{header}");
    }
    for kind in ["", "Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded"] {
        assert_eq!(call(address, &format!("POST /v1/tenants\n{kind}"), body).0, 400, "{kind}");
    }
    assert_eq!(call(address, "GET /healthz\nHost: any.name", "").0, 200, "health is no secret");
    assert!(fake.0.lock().expect("no panic").is_empty());
}

#[test]
fn prometheus_may_scrape_by_name_where_other_machines_reach_the_door() {
    for bound in ["0.0.0.0:0", "[::]:0"] {
        let (address, _) = start_at(bound);
        let address = SocketAddr::from(([127, 0, 0, 1], address.port()));
        assert_eq!(call(address, "GET /metrics\nHost: weir-1:6380", "").0, 200, "{bound}");
        assert_eq!(call(address, "GET /metrics\nHost: weir-1:6380\nOrigin: http://weir-1:6380", "").0, 403, "{bound}");
        assert_eq!(call(address, "GET /v1/tenants\nHost: weir-1:6380", "").0, 403, "{bound}");
    }
}

#[test]
fn nonsense_is_named_and_bodies_are_bounded() {
    let (address, fake) = start();
    for (body, named) in
        [("", "EOF"), ("[]", "invalid"), (r#"{"nam":"x"}"#, "nam"), (r#"{"name":"x","settings":{"rcuu":1}}"#, "rcuu")]
    {
        let (status, answer) = call(address, &format!("POST /v1/tenants\n{JSON}"), body);
        assert!(status == 400 && answer.contains(named), "{body}: {status} {answer}");
    }
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(call(address, &format!("POST /v1/tenants\n{JSON}"), &long).0, 413);
    assert_eq!(call(address, "GET /v1/nothing", "").0, 404);
    for (request, status) in [
        ("GET /v1/nothing", 404),
        ("PUT /v1/tenants", 405),
        ("DELETE /metrics", 405),
        (&format!("POST /v1/tenants\n{JSON}"), 413),
    ] {
        let (answered, body) = call(address, request, &long);
        assert_eq!(answered, status, "{request}");
        assert!(body.starts_with("{\"error\":\""), "{request}: {body}");
    }
    for (body, expected) in [
        (r#"{"name":"x","secret":12345}"#, "invalid type, expected a string at line 1"),
        (r#"{"name":"x","settings":{"rcu":"12345, expected"}}"#, "invalid type, expected u64 at line 1"),
    ] {
        let (status, answer) = call(address, &format!("POST /v1/tenants\n{JSON}"), body);
        assert!(status == 400 && answer.contains(expected) && !answer.contains("12345"), "{answer}");
    }
    assert!(fake.0.lock().expect("no panic").is_empty());
}
