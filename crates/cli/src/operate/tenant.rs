//! `weir tenant`: create, look at and change the tenants of a running server.

use std::io::{BufRead, IsTerminal, Write, stdin, stdout};

use clap::{Args, Subcommand, ValueEnum};
use weir_gateway::admin::wire::{self, Change, Changed, DeltaMs, DeltaWord, NewTenant, Settings, Tenants};

use super::client::{Client, Server};
use super::{Outcome, secret, show_secret};
use crate::units::{bytes, parse_bytes};

/// Create, list, show, alter, suspend, resume and drop tenants of a running server.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Tenant {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  weir tenant create shop --rcu 1000 --wcu 500     generates a secret and prints it, once
  redis-cli --user shop --pass SECRET              its clients
  weir tenant create cart --engine memory --memory-max 1GiB
  weir tenant list
  weir tenant alter shop --wcu 1000                from the next request on
  weir tenant alter shop --weight 2 --delta-ms 100
  weir tenant suspend shop                         its clients are refused, its data stays
  weir tenant drop shop                            its data is gone for good

What is sold is said with it: units cost device bytes, and more may be sold than the device gives, because hardly anybody uses all at once.

All of it is durable when the command has answered. The server is found at --admin HOST:PORT, else at the address in
WEIR_ADMIN, else at 127.0.0.1:6380.";

#[derive(Debug, Subcommand)]
enum What {
    /// Create a tenant, with a generated secret unless one is given
    Create {
        /// 1 to 63 characters of a-z, 0-9, _ and -, the first one a letter or a digit
        name: String,
        /// Partitions that its keys are spread over, 1 to 256; their number cannot be changed later. With more than one
        /// a tenant can use more than one core, but commands on several keys need keys with the same {hash tag}
        /// [default: 1]
        #[arg(long, value_name = "N")]
        partitions: Option<u16>,
        /// Where its rows are: `lsm`, on disk, with a cache in memory; `sp-lsm`, the same without a level 0, which
        /// writes fewer bytes and takes more memory; or `memory`, all in memory, with a log and snapshots on disk. It
        /// cannot be changed later [default: lsm]
        #[arg(long, value_name = "ENGINE", value_parser = ["lsm", "memory", "sp-lsm"])]
        engine: Option<String>,
        /// Where its writes are logged: `own`, a log for each partition; or `shared`, one log for all such tenants, if
        /// many tenants write little. It cannot be changed later [default: own]
        #[arg(long, value_name = "LOG", value_parser = ["own", "shared"])]
        log: Option<String>,
        #[command(flatten)]
        limits: Limits,
        /// A secret of your choice instead of a generated one; `-` reads it from standard input
        #[arg(long, value_name = "S")]
        secret: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// List all tenants
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Show a tenant's settings
    Show {
        /// The tenant
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Change a tenant's settings; settings that are not named stay as they are
    Alter {
        /// The tenant
        name: String,
        #[command(flatten)]
        limits: Limits,
        /// A new secret of your choice; `-` reads it from standard input. Open connections stay open
        #[arg(long, value_name = "S", conflicts_with = "new_secret")]
        secret: Option<String>,
        /// Generate a new secret and print it, once
        #[arg(long)]
        new_secret: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Refuse a tenant's clients; its data stays
    Suspend {
        /// The tenant
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Serve a suspended tenant's clients again
    Resume {
        /// The tenant
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Drop a tenant and all its data
    Drop {
        /// The tenant
        name: String,
        /// Do not ask whether you mean it
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    server: Server,
    /// Print the server's answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Limits {
    /// Read capacity units per second, 0 = unlimited: one is a read of up to 4 KiB. A new tenant has no limit unless
    /// one is given
    #[arg(long, value_name = "N")]
    rcu: Option<u64>,
    /// Write capacity units per second, 0 = unlimited: one is a write of up to 1 KiB
    #[arg(long, value_name = "N")]
    wcu: Option<u64>,
    /// Request units per second, 0 = unlimited: one is what a read of 1 KiB from the device takes of the machine, and
    /// every command of any kind is charged what it takes. This limit holds in addition to --rcu and --wcu
    #[arg(long, value_name = "N")]
    ru: Option<u64>,
    /// Whether the tenant may use more request units than --ru, as long as the node has some left: the units that
    /// others bought come first
    #[arg(long, value_name = "true|false")]
    spare: Option<bool>,
    /// Save up unused units, at most those of this many seconds; they may then be used at once
    #[arg(long, value_name = "N")]
    burst_seconds: Option<u32>,
    /// What happens beyond the limit: the request waits, or is refused with -THROTTLED
    #[arg(long, value_name = "WHAT")]
    on_limit: Option<OnLimit>,
    /// Longest wait of a request beyond the limit, in milliseconds; a request that would have to wait longer is refused
    #[arg(long, value_name = "MS")]
    delay_max_ms: Option<u32>,
    /// Most connections; 0 = as many as the node allows
    #[arg(long, value_name = "N")]
    connections_max: Option<u32>,
    /// Most space on disk, in bytes or with a unit, such as 10GiB; 0 = unlimited
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    disk_bytes_max: Option<u64>,
    /// Most memory for its rows, in bytes or with a unit, such as 1GiB; 0 = unlimited. Only for tenants of the engine
    /// `memory`
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_max: Option<u64>,
    /// Its part of the write memory, of the block cache and of the flush slots in proportion to others', 1 to 1000; a
    /// new tenant has 1. It counts where the server's `write_memory_shares`, `cache_shares` or `flush_slot_shares` is
    /// `fair` (except for the cache), `quota` or `delta`
    #[arg(long, value_name = "N")]
    weight: Option<u16>,
    /// How long it may have to wait for that part while others use it, where the server shares by `delta`:
    /// milliseconds, for each of the three; `never`: it is promised nothing, and takes nothing that is kept for others;
    /// or `node`: as long as the server promises to all tenants, which is the setting of a new tenant. A value that
    /// would keep more than half of the write memory or of the slots from others is refused
    #[arg(long, value_name = "MS|never|node")]
    delta_ms: Option<DeltaMs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnLimit {
    /// Wait
    Delay,
    /// Refuse at once
    Refuse,
}

impl Limits {
    fn settings(self) -> Settings {
        Settings {
            rcu: self.rcu,
            wcu: self.wcu,
            ru: self.ru,
            spare: self.spare,
            burst_seconds: self.burst_seconds,
            on_limit: self.on_limit.map(|on_limit| match on_limit {
                OnLimit::Delay => wire::OnLimit::Delay,
                OnLimit::Refuse => wire::OnLimit::Refuse,
            }),
            delay_max_ms: self.delay_max_ms,
            connections_max: self.connections_max,
            disk_bytes_max: self.disk_bytes_max,
            memory_bytes_max: self.memory_max,
            weight: self.weight,
            delta_ms: self.delta_ms,
            suspended: None,
        }
    }
}

impl Common {
    fn client(&self) -> Outcome<Client> {
        self.server.client()
    }

    fn changed(&self, changed: &Changed) -> Outcome {
        if self.json {
            return print_json(changed);
        }
        show(&changed.tenant);
        if changed.sold.tenants > 0 {
            println!("sold     {}", changed.sold);
        }
        show_secret(&changed.tenant.name, changed.secret.as_deref());
        Ok(())
    }
}

impl Tenant {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self.what {
            What::Create { name, partitions, engine, log, limits, secret: given, common } => {
                let (secret, settings) = (secret(given)?, limits.settings());
                let order = NewTenant { name, partitions, engine, log, secret, settings };
                common.changed(&common.client()?.post("/v1/tenants", &order)?)
            }
            What::List { common } => {
                let tenants: Tenants = common.client()?.get("/v1/tenants")?;
                if common.json {
                    return print_json(&tenants);
                }
                list(&tenants);
                Ok(())
            }
            What::Show { name, common } => {
                let tenant: wire::Tenant = common.client()?.get(&path(&name)?)?;
                if common.json {
                    return print_json(&tenant);
                }
                show(&tenant);
                Ok(())
            }
            What::Alter { name, limits, secret: given, new_secret, common } => {
                let change = Change { secret: secret(given)?, new_secret, settings: limits.settings() };
                if change == Change::default() {
                    return Err("nothing to change: name a setting (see `weir tenant alter --help`)".into());
                }
                common.changed(&common.client()?.patch(&path(&name)?, &change)?)
            }
            What::Suspend { name, common } => suspend(&name, true, &common),
            What::Resume { name, common } => suspend(&name, false, &common),
            What::Drop { name, yes, common } => {
                let client = common.client()?;
                if !yes && !confirmed(&name)? {
                    return Err("nothing was dropped".into());
                }
                client.delete(&path(&name)?)?;
                if common.json {
                    print_json(&serde_json::json!({ "dropped": name }))
                } else {
                    println!("dropped {name}");
                    Ok(())
                }
            }
        }
    }
}

fn suspend(name: &str, suspended: bool, common: &Common) -> Outcome {
    let settings = Settings { suspended: Some(suspended), ..Settings::default() };
    let change = Change { settings, ..Change::default() };
    common.changed(&common.client()?.patch(&path(name)?, &change)?)
}

/// The route of a tenant. Names of tenants need no escapes; a text that is no such name must not become another route.
pub fn path(name: &str) -> Outcome<String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(format!("`{name}` cannot be a tenant's name: a-z, 0-9, _ and - are allowed").into());
    }
    Ok(format!("/v1/tenants/{name}"))
}

/// Asks for the name once more: a `y` is typed too easily for data that does not come back.
fn confirmed(name: &str) -> Outcome<bool> {
    if !stdin().is_terminal() {
        return Err(format!("this would drop {name} and all its data: say --yes, as there is nobody to ask").into());
    }
    print!("This drops {name} and all its data, for good. Type its name to go on: ");
    stdout().flush()?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == name)
}

fn print_json(value: &impl serde::Serialize) -> Outcome {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

fn list(tenants: &Tenants) {
    let width = tenants.tenants.iter().map(|tenant| tenant.name.len()).max().unwrap_or(0).max(4);
    println!(
        "{:width$}  {:>5}  {:>5}  {:>8}  {:>8}  {:>8}  {:>6}  {:>8}  {:6}  STATE",
        "NAME", "PARTS", "AWAKE", "RCU", "WCU", "RU", "WEIGHT", "DELTA", "SECRET"
    );
    for tenant in &tenants.tenants {
        let settings = &tenant.settings;
        println!(
            "{:width$}  {:>5}  {:>5}  {:>8}  {:>8}  {:>8}  {:>6}  {:>8}  {:6}  {}",
            tenant.name,
            tenant.partitions,
            tenant.awake,
            limit(settings.rcu),
            limit(settings.wcu),
            limit(settings.ru),
            settings.weight.unwrap_or(1),
            settings.delta_ms.map_or("node".to_owned(), |delta| delta.to_string()),
            if tenant.has_secret { "yes" } else { "none" },
            state(tenant),
        );
    }
    if tenants.sold.tenants > 0 {
        println!("sold: {}", tenants.sold);
    }
}

fn limit(units: Option<u64>) -> String {
    units.filter(|&units| units > 0).map_or("-".to_owned(), |units| units.to_string())
}

fn state(tenant: &wire::Tenant) -> &'static str {
    match (tenant.settings.suspended, tenant.awake) {
        (Some(true), _) => "suspended",
        (_, 0) => "asleep",
        _ => "active",
    }
}

fn show(tenant: &wire::Tenant) {
    let settings = &tenant.settings;
    let units = |units: Option<u64>| match units {
        None | Some(0) => "unlimited".to_owned(),
        Some(units) => format!("{units} units/s"),
    };
    println!("tenant   {} (number {}), {}", tenant.name, tenant.id, state(tenant));
    println!("keys in  {} partitions, {} awake", tenant.partitions, tenant.awake);
    println!("engine   {}", tenant.engine.as_deref().unwrap_or("lsm"));
    println!("log      {}", tenant.log.as_deref().unwrap_or("own"));
    println!("reads    {}", units(settings.rcu));
    println!("writes   {}", units(settings.wcu));
    let spare = if settings.spare == Some(true) { ", and what the node has left" } else { "" };
    println!("requests {}{spare}", units(settings.ru));
    let beyond = match (settings.on_limit, settings.delay_max_ms) {
        (Some(wire::OnLimit::Refuse), _) => "refused at once".to_owned(),
        (_, delay) => format!("delayed up to {} ms, then refused", delay.unwrap_or(0)),
    };
    println!("beyond   {beyond}; {} s of unused units are kept", settings.burst_seconds.unwrap_or(0));
    let delta = match settings.delta_ms {
        None | Some(DeltaMs::Word(DeltaWord::Node)) => "waits as long as the node promises".to_owned(),
        Some(DeltaMs::Word(DeltaWord::Never)) => "waits as long as it takes".to_owned(),
        Some(DeltaMs::Ms(ms)) => format!("waits up to {ms} ms"),
    };
    println!("shares   weight {}; {delta} for them", settings.weight.unwrap_or(1));
    println!(
        "clients  {}",
        match settings.connections_max {
            None | Some(0) => "as many connections as the node allows".to_owned(),
            Some(max) => format!("{max} connections at most"),
        }
    );
    println!(
        "disk     {}",
        match settings.disk_bytes_max {
            None | Some(0) => "unlimited".to_owned(),
            Some(max) => format!("{} at most", bytes(max)),
        }
    );
    if let Some(used) = tenant.memory_bytes {
        let max = settings.memory_bytes_max.filter(|&max| max > 0);
        println!(
            "memory   {} of rows, {}",
            bytes(used),
            max.map_or("unlimited".to_owned(), |max| format!("{} at most", bytes(max)))
        );
    }
    if !tenant.users.is_empty() {
        println!("users    {}", tenant.users.join(", "));
    }
    if !tenant.has_secret {
        println!("secret   none: whoever reaches the port on this machine is let in");
    }
}
