//! One log-structured merge tree.
