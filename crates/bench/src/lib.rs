//! Load and peers.
