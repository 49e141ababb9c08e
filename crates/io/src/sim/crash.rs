//! The power cut: turns the state of a disk into one of the images that may be left of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::disk::DiskState;
use super::fate::{Fates, Keep};
use super::image::{DiskImage, Node};
use super::inode::{FileInode, Inode};
use super::names::crashed_names;
use crate::Rng;

impl DiskState {
    /// The image that a power cut now leaves.
    pub(super) fn crash(&self, keep: Keep, rng: &mut Rng) -> DiskImage {
        // The range of changes that are not yet durable decides where a prefix may end.
        let mut range = self.names.range();
        self.each_file(&mut |file| {
            if let Some((low, high)) = file.state.lock().pending_range() {
                range = Some(range.map_or((low, high), |(l, h)| (l.min(low), h.max(high))));
            }
        });
        let (first, end) = range.map_or((0, 0), |(low, high)| (low, high + 1));
        let mut fates = Fates::new(keep, rng, first, end);
        let kept = self.names.crash(&mut fates);
        // Inode numbers to node indices: a file with two names stays one file.
        let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
        let mut nodes = vec![Node::Dir(BTreeMap::new())];
        let mut dirs = vec![(Arc::clone(&self.root), 0)];
        while let Some((dir, at)) = dirs.pop() {
            let mut entries = BTreeMap::new();
            for (name, inode) in crashed_names(&dir, &kept) {
                let number = match &inode {
                    Inode::File(file) => file.number,
                    Inode::Dir(dir) => dir.number,
                };
                let index = *seen.entry(number).or_insert_with(|| {
                    nodes.push(match &inode {
                        Inode::File(file) => {
                            let (content, reserved) = file.state.lock().crash(&mut fates);
                            Node::File(content, reserved)
                        }
                        Inode::Dir(_) => Node::Dir(BTreeMap::new()),
                    });
                    let index = nodes.len() - 1;
                    if let Inode::Dir(dir) = inode {
                        dirs.push((dir, index));
                    }
                    index
                });
                entries.insert(name, index);
            }
            nodes[at] = Node::Dir(entries);
        }
        DiskImage::of(nodes)
    }

    /// Visits every file that is visible or durable, some of them twice.
    fn each_file(&self, visit: &mut dyn FnMut(&FileInode)) {
        let mut dirs = vec![Arc::clone(&self.root)];
        let mut seen = BTreeSet::from([self.root.number]);
        while let Some(dir) = dirs.pop() {
            let state = dir.state.lock();
            for inode in state.names.values().chain(state.durable.values()) {
                match inode {
                    Inode::File(file) => visit(file),
                    Inode::Dir(dir) => {
                        if seen.insert(dir.number) {
                            dirs.push(Arc::clone(dir));
                        }
                    }
                }
            }
        }
    }
}
