//! Buckets, gates, pools and the ledger, and the policies that turn their knobs.
