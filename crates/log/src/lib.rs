//! The write-ahead log of one partition.
