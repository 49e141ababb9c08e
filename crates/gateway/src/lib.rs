//! The doors for clients.
