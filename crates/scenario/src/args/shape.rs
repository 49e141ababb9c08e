//! What a load and a store look like, beyond even writes of equal items into tidy trees.

use clap::Args;
use serde::{Deserialize, Serialize};

/// The shape of the load and of the trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
#[group(skip)]
#[serde(default)]
pub struct Shape {
    /// Write and read few items often and most of them seldom, by Zipf's law with exponent 0.99, instead of all evenly
    #[arg(long)]
    pub zipf: bool,
    /// Items of three sizes: of ten items six have a quarter of --item-bytes, three have --item-bytes, one has 5.5
    /// times that
    #[arg(long)]
    pub mixed: bool,
    /// Begin with trees in debt: each level above its target by this share, and level 0 with this share of the runs at
    /// which writes are slowed, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub debt: f64,
}
