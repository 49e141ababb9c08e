//! Policies: pure functions from a sample to knob positions, one file per idea. They have no clock and do no I/O:
//! everything that they see is in the [`Sample`], what they must remember is in the policy, and the same samples give
//! the same knobs.

pub mod bandwidth;
mod behaviour;
pub mod deferral;
pub mod device;
mod device_map;
mod explain;
mod felt;
pub mod forecast;
mod history;
mod ingredient;
mod knobs;
pub mod meter;
mod owner;
pub mod parking;
pub mod preemption;
mod profile;
mod recording;
mod relief;
mod sample;
pub mod share;
pub mod worker_order;

pub use behaviour::{Behaviour, BehaviourObserver};
pub use device_map::DeviceMap;
pub use explain::{explain, replay};
pub use felt::{Facts, WINDOW, Window, felt, window};
pub use history::{History, Tick};
pub use ingredient::Ingredient;
pub use knobs::{Floor, INTRA_L0_FAN_IN, Knobs, NodeKnobs, PartitionKnobs, Reason, Scope, Stage};
pub use profile::{Decision, Policy, Profile, Settings};
pub use recording::{Difference, Recording, Replayed};
pub use relief::{Move, Violation};
pub use sample::{Bytes, Felt, JobFacts, MemoryFacts, Operations, PartitionSample, Sample, TreeFacts};
