//! Tests that settings are understood, refused, warned about and documented.

use weir_log::SyncMode;
use weir_lsm::table::Compression;
use weir_node::{CacheMode, FlushShares, Profile, Promise, ShareMode};

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("weir.toml"), text)
}

#[test]
fn units_are_understood_and_the_rest_stays_as_it_was() {
    let config = parse(
        "cache = \"1 GiB\"\nwrite_buffer = 1048576\ndevice_bandwidth = \"100 MB/s\"\nsync = \"always\"\ncompression = \"zstd\"",
    )
    .expect("valid");
    assert_eq!((config.cache, config.write_buffer), (Bytes(1 << 30), Bytes(1 << 20)));
    assert_eq!(config.device_bandwidth, Device::Rate(Rate(Some(100_000_000))));
    assert_eq!(config.listen, Config::default().listen);
    let node = config.node(None);
    assert_eq!(node.sync, SyncMode::Always);
    assert_eq!(node.bandwidth.expect("limited").device, Limits::bytes(100_000_000));
    assert_eq!(node.tree.compression[..4], [Compression::None, Compression::Lz4, Compression::Lz4, Compression::Zstd]);
    let default = parse("").expect("valid").node(None).tree.compression;
    assert_eq!((default[0], default[1], default[6]), (Compression::None, Compression::Lz4, Compression::Lz4));
    assert_eq!(parse("").expect("valid").node(None).bandwidth, None);
    let peer = parse("profile = \"rocksdb\"").expect("valid").node(None);
    assert_eq!(peer.profile, Profile::RocksDb);
    assert_eq!(parse("").expect("valid").node(None).hibernate_after, 300_000_000_000);
    let shares = parse("write_memory_shares = \"delta 200 ms for 2\"").expect("valid").node(None).write_memory_shares;
    assert_eq!(shares, ShareMode::Delta(Promise { delta: 200_000_000, k: 2 }));
    let slots = |text| parse(text).expect("valid").node(None).flush_slots;
    let delta = |delta, k| ShareMode::Delta(Promise { delta, k });
    assert_eq!(slots("flush_slot_shares = \"fair\""), None, "by default their number is not bounded");
    assert_eq!(slots("flush_slots = \"4\""), Some(FlushShares { slots: 4, mode: delta(500_000_000, 1) }));
    assert_eq!(slots("flush_slots = 1\nflush_slot_shares = \"fair\"").map(|shares| shares.slots), Some(1));
    let text = "flush_slots = 8\nflush_slot_shares = \"delta 300 ms for 2\"";
    assert_eq!(slots(text), Some(FlushShares { slots: 8, mode: delta(300_000_000, 2) }));
    let shares = parse("cache_shares = \"delta\"").expect("valid").node(None).cache_shares;
    assert_eq!(shares, CacheMode::Delta(Promise { delta: 500_000_000, k: 1 }));
    assert_eq!(parse("").expect("valid").node(None).cache_shares, CacheMode::Fair);
    assert_eq!(parse("hibernate_after_seconds = 0").expect("valid").node(None).hibernate_after, 0, "never");
    let calibrated = parse("device_bandwidth = \"calibrated\"").expect("valid").node(Some(Limits::bytes(7)));
    assert_eq!(calibrated.bandwidth.expect("limited").device, Limits::bytes(7));
}

#[test]
fn what_is_wrong_is_named() {
    for (text, named) in [
        ("cach = 5", "cach"),
        ("profile = \"weir-without-guard\"", "there are rocksdb,"),
        ("cache = \"5 parsecs\"", "parsecs"),
        ("cache = -1", "-1"),
        ("sync = \"sometimes\"", "sometimes"),
        ("write_memory = \"100 MiB\"", "write_memory"),
        ("write_buffers_max = 1", "write_buffers_max"),
        ("value_bytes_max = \"1 GiB\"", "value_bytes_max"),
        ("write_buffers_max = 1025", "write_buffers_max must be at most"),
        ("compactions_max = 100000", "compactions_max must be at most"),
        ("sync_interval_ms = 9223372036854775807", "sync_interval_ms must be at most"),
        ("write_memory = \"1025 TiB\"", "write_memory must be at most"),
        ("cache = \"16000000 TiB\"", "cache must be at most"),
        ("device_bandwidth = 0", "device_bandwidth"),
        ("device_bandwidth = \"0 MB\"", "more than 0"),
        ("device_bandwidth = \"100\"", "write \"100 MB\""),
        ("device_bandwidth = \"100/s\"", "write \"100 MB\""),
        ("device_bandwidth = 100", "write \"100 MB\""),
        ("device_bandwidth = -5", "-5"),
        ("value_bytes_max = \"64\"", "\"64 MiB\""),
        ("write_buffer = \"64\"", "\"64 MiB\""),
        ("write_memory = \"64\"", "\"64 MiB\""),
        ("write_memory_shares = \"half\"", "\"delta 350 ms for 2\""),
        ("flush_slots = 0", "1 to 1024"),
        ("flush_slots = \"some\"", "unbounded"),
        ("flush_slots = 1", "none can be kept"),
        ("flush_slot_shares = \"quarter\"", "\"delta 500 ms for 2\""),
        ("flush_slot_shares = \"half\"", "\"delta 500 ms for 2\""),
        ("cache_shares = \"quarter\"", "\"delta 500 ms for 2\""),
        ("cache = \"256\"", "\"256 MiB\""),
        ("profile = \"rocks\"", "rocksdb-autotune"),
        ("profile = \"cruise-no-sp\"", "device_bandwidth"),
        ("listen = \"off\"", "listen and tls_listen"),
        ("tls_listen = \"127.0.0.1:6390\"", "tls_certificate"),
        ("tls_listen = \"127.0.0.1:6390\"\ntls_certificate = \"c.pem\"", "tls_key"),
        (
            "tls_listen = \"127.0.0.1:6390\"\ntls_certificate = \"c.pem\"\ntls_key = \"k.pem\"\ntls_client_certificates = \"required\"",
            "tls_client_ca",
        ),
        ("tls_client_certificates = \"optional\"\ntls_client_ca = \"ca.pem\"", "tls_listen"),
        ("tls_client_certificates = \"some\"", "optional"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(named) && error.starts_with("weir.toml: "), "{error}");
    }
}

#[test]
fn what_is_hardly_meant_is_warned_about() {
    for (text, named) in [
        ("device_bandwidth = \"100 B\"", "device_bandwidth is 100 B per second"),
        ("device_bandwidth = \"999 KB/s\"", "device_bandwidth is 976 KiB per second"),
        ("cache = 256", "cache is 256 B"),
        ("value_bytes_max = 64", "value_bytes_max is 64 B"),
    ] {
        let warnings = parse(text).expect(text).warnings();
        assert!(warnings.len() == 1 && warnings[0].starts_with(named), "{text}: {warnings:?}");
    }
    let calibrated = "device_bandwidth = \"calibrated\"\nprofile = \"cruise-no-sp\"";
    for fine in ["", calibrated, "device_bandwidth = \"1 MB\"", "device_bandwidth = 1000000", "cache = \"1 MiB\""] {
        assert!(parse(fine).expect(fine).warnings().is_empty(), "{fine}");
    }
}

#[test]
fn changes_name_what_differs_and_nothing_else() {
    let (old, new) =
        (Config::default(), parse("cache = \"1 GiB\"\nsync = \"always\"\nprofile = \"node\"").expect("valid"));
    let changes = old.changes(&new).join(", ");
    assert_eq!(changes, "sync: interval -> always, cache: 268435456 bytes -> 1073741824 bytes, profile: weir -> node");
    assert!(old.changes(&old).is_empty());
    let names = old.shown().map(|(name, _)| name);
    let debug = format!("{:#?}", Config::default());
    let fields = debug.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
    let fields: Vec<&str> = fields.filter_map(|line| line.trim().split_once(':')).map(|(name, _)| name).collect();
    assert_eq!(names.as_slice(), fields, "every setting, in the order of the struct");
}

/// The page that explains the settings names each of them with its default, and says when to change it.
#[test]
fn every_setting_is_documented() {
    let page = include_str!("../../../../../docs/config.md");
    let shown = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let documented = parse(shown).expect("the example is a valid configuration");
    assert_eq!(format!("{documented:?}"), format!("{:?}", Config::default()), "the example shows the defaults");
    let settings = || shown.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = settings().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name).collect();
    let debug = format!("{:#?}", Config::default());
    for line in debug.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     ")) {
        if let Some((name, _)) = line.trim().split_once(':') {
            assert!(names.contains(&name), "{name} is not in docs/config.md");
        }
    }
    assert!(names.len() <= 30, "{} settings: who is to know them all?", names.len());
    for setting in shown.trim().split("\n\n") {
        assert!(setting.starts_with("# ") && setting.contains("\n# When: "), "{setting}");
        assert_eq!(setting.lines().filter(|line| !line.starts_with('#')).count(), 1, "{setting}");
    }
}
