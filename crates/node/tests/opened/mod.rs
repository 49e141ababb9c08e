//! A node with the one partition of its first tenant awake.
#![allow(missing_docs, reason = "test support")]

use std::ops::Deref;
use std::sync::Arc;

use weir_io::Result;
use weir_node::{Machine, Node, NodeConfig, Partition};

pub struct Opened {
    node: Node,
    partition: Arc<Partition>,
}

impl Opened {
    pub async fn open(config: &NodeConfig, machine: Machine) -> Result<Self> {
        let node = Node::open(config, machine).await?;
        let partition = node.default_partition().await?;
        Ok(Self { node, partition })
    }

    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }
}

impl Deref for Opened {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}
