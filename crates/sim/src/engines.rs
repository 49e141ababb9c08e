//! Which engines keep the rows of a run's tenants.

use std::fmt;
use std::str::FromStr;

use weir_node::{EngineKind, UnknownEngine};

/// One engine or several; with several, tenants take them in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engines(Vec<EngineKind>);

impl Engines {
    /// This engine for all tenants.
    pub fn only(engine: EngineKind) -> Self {
        Self(vec![engine])
    }

    /// Every engine there is.
    pub fn all() -> Self {
        Self(EngineKind::ALL.to_vec())
    }

    /// The engine of tenant number `number`.
    pub fn of(&self, number: usize) -> EngineKind {
        self.0[number % self.0.len()]
    }
}

impl Default for Engines {
    fn default() -> Self {
        Self::only(EngineKind::default())
    }
}

impl fmt::Display for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|engine| engine.name()).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Engines {
    type Err = UnknownEngine;

    fn from_str(words: &str) -> Result<Self, UnknownEngine> {
        words.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_read_as_they_are_shown_and_tenants_take_turns() {
        let all: Engines = "lsm,memory,sp-lsm".parse().expect("three engines");
        assert_eq!((&all, all.to_string().as_str()), (&Engines::all(), "lsm,memory,sp-lsm"));
        assert_eq!([0, 1, 3].map(|number| all.of(number)), [EngineKind::Lsm, EngineKind::Memory, EngineKind::Lsm]);
        let turned: Engines = "memory,lsm".parse().expect("two engines");
        assert_eq!(turned.of(0), EngineKind::Memory);
        for wrong in ["", "lsm,", "lsm memory", "rocks"] {
            assert_eq!(wrong.parse::<Engines>(), Err(UnknownEngine), "{wrong}");
        }
    }
}
