//! How many bytes this process has moved according to the kernel, to compare with the ledger.

use std::sync::Arc;

use weir_node::{Direction, Node};

/// Byte counts of the kernel (`/proc/self/io`): `read_bytes` is what was requested from the device; `write_bytes` is
/// direct writes, and pages of the page cache counted at the moment they became dirty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelBytes([u64; 2]);

impl KernelBytes {
    /// The counts now; `None` if the kernel does not tell.
    #[allow(clippy::disallowed_methods, reason = "a window of the kernel, not a file of the disk")]
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/self/io").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line?.trim().parse().ok()
        };
        Some(Self([field("read_bytes")?, field("write_bytes")?]))
    }

    /// Bytes in one direction.
    pub fn bytes(self, direction: Direction) -> u64 {
        self.0[direction as usize]
    }
}

/// Compares the ledger with the kernel, both since the node was opened.
pub struct Conservation {
    node: Arc<Node>,
    before: Option<KernelBytes>,
}

impl Conservation {
    /// The comparison for `node`; `before` is what the kernel had counted when the node was opened.
    pub fn new(node: Arc<Node>, before: Option<KernelBytes>) -> Self {
        Self { node, before }
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// Bytes in one direction since then, (in the ledger, in the kernel); `None` if the kernel does not tell.
    pub fn bytes(&self, direction: Direction) -> Option<(u64, u64)> {
        let kernel = KernelBytes::now()?.bytes(direction).saturating_sub(self.before?.bytes(direction));
        Some((self.node.ledger().total().total(direction).bytes, kernel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_by_name() {
        let text =
            "rchar: 5\nwchar: 6\nsyscr: 1\nsyscw: 2\nread_bytes: 12288\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n";
        let bytes = KernelBytes::parse(text).expect("all lines are there");
        assert_eq!((bytes.bytes(Direction::Read), bytes.bytes(Direction::Write)), (12_288, 4_096));
        assert_eq!(KernelBytes::parse("rchar: 5\n"), None);
    }
}
