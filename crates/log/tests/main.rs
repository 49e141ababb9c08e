//! The log from outside: crashes, damage, wakes, and what every log has to do. One program, as each is linked anew.

mod common;
mod contract;
mod crash;
mod damage;
mod shared;
mod spare;
mod wakes;
