//! The cost of each module (XS-19).

use std::ops::{Index, IndexMut};

use super::module::{Module, Work};
use super::resources::Resources;

/// The cost of one invocation, or one byte, of each module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostTable([Resources; Module::ALL.len()]);

impl Default for CostTable {
    /// Nothing takes anything.
    fn default() -> Self {
        Self([Resources::default(); Module::ALL.len()])
    }
}

impl CostTable {
    /// What `work` takes: its physical units before they are divided by the reference read.
    #[inline]
    pub fn resources(&self, work: &Work) -> Resources {
        let mut sum = Resources::default();
        for (module, count) in work.counts() {
            sum += self[module].times(count);
        }
        sum
    }
}

impl Index<Module> for CostTable {
    type Output = Resources;

    #[inline]
    fn index(&self, module: Module) -> &Resources {
        &self.0[module as usize]
    }
}

impl IndexMut<Module> for CostTable {
    fn index_mut(&mut self, module: Module) -> &mut Resources {
        &mut self.0[module as usize]
    }
}

/// The reference: a `GET` of 1 KiB that comes by itself and is read from the device, in one page. What it takes in each
/// dimension is one physical unit (XS-17).
pub fn reference_read() -> Work {
    let mut work = Work::default();
    for (module, count) in [
        (Module::Round, 1),
        (Module::Command, 1),
        (Module::Word, 2),
        // `*2 $3 GET $16 ...` and `$1024 ...`, with their line ends.
        (Module::RequestByte, 36),
        (Module::ReplyByte, 1033),
        (Module::RowCommand, 1),
        (Module::RowFound, 1),
        (Module::ReadByte, 1024),
        (Module::DeviceRead, 1),
        (Module::DeviceByte, 4096),
    ] {
        work.count(module, count);
    }
    work
}
