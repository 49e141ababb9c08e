//! Tests the binary from outside, as a process. They are one program, so that tests that wait for processes wait side
//! by side.

mod abuse;
mod alerts;
mod backups;
mod bench;
mod bill;
mod clients;
mod deferral;
mod demo;
mod frameworks;
mod import;
mod interrupt;
mod kill9;
mod metrics;
mod pipes;
mod plan;
mod redis_cli;
mod run_script;
mod secrets;
mod serve;
mod signals;
mod support;
mod syscalls;
mod tenants;
mod tls;
mod why;
