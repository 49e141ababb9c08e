//! Names that rules may use beside those of the table: the commands of Redis 7.0 that Weir does not have. So Weir
//! understands rules that were written for a Redis.

use crate::table::Categories;

/// Names that are in the same categories.
pub(super) struct Names {
    pub(super) categories: Categories,
    pub(super) names: &'static [&'static str],
}

macro_rules! commands {
    ($([$($category:ident)+] $($name:literal)+;)+) => {
        /// Commands of Redis that Weir does not have.
        pub(super) static OTHERS: &[Names] = &[$(Names {
            categories: Categories::of(&[$(stringify!($category)),+]),
            names: &[$($name),+],
        }),+];
    };
}

commands! {
    [admin slow dangerous] "bgrewriteaof" "bgsave" "failover" "replicaof" "save" "shutdown"
        "slaveof";
    [slow scripting] "fcall" "fcall_ro";
    [keyspace write slow dangerous] "restore-asking";
}
