//! The binary from outside, as a process. One program, so that tests that wait for processes do so side by side.

mod abuse;
mod alerts;
mod backups;
mod bill;
mod clients;
mod deferral;
mod frameworks;
mod import;
mod interrupt;
mod kill9;
mod metrics;
mod redis_cli;
mod secrets;
mod serve;
mod signals;
mod support;
mod syscalls;
mod tenants;
mod tls;
mod why;
