//! Many tenants on one machine.
