//! The configuration file: any text is settings that make sense, or an error that names the file.
#![no_main]
#![allow(dead_code, clippy::all)]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cli/src/serve/config/mod.rs"]
mod config;
#[path = "../../crates/cli/src/units.rs"]
mod units;

fuzz_target!(|text: &str| {
    match config::Config::parse(Path::new("weir.toml"), text) {
        Ok(config) => {
            let _ = config.node(None);
            let _ = config.gateway(2, weir_gateway::UnitPrices::default());
        }
        Err(error) => assert!(error.starts_with("weir.toml: ")),
    }
});
