//! A disk without its machine: the result of a power cut, and the start of many runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::content::Content;
use super::inode::{DirInode, DirState, FileInode, FileState, Inode, Names};
use super::path::{components, split};
use crate::Result;

/// The content of a disk. A clone costs one reference count, and shares every byte until somebody writes.
#[derive(Clone)]
pub struct DiskImage {
    /// Node 0 is the root. A file with several names is one node.
    nodes: Arc<Vec<Node>>,
}

#[derive(Clone)]
pub(super) enum Node {
    /// Content, and how many chunks are reserved from the start of the file.
    File(Arc<Content>, u64),
    Dir(BTreeMap<Arc<str>, usize>),
}

impl Default for DiskImage {
    fn default() -> Self {
        Self::new()
    }
}

impl DiskImage {
    /// An empty disk.
    pub fn new() -> Self {
        Self::of(vec![Node::Dir(BTreeMap::new())])
    }

    pub(super) fn of(nodes: Vec<Node>) -> Self {
        Self { nodes: Arc::new(nodes) }
    }

    /// Path and length of every file, sorted by path. Paths are relative to the root.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = BTreeSet::new();
        let mut dirs = vec![(PathBuf::new(), 0)];
        while let Some((path, node)) = dirs.pop() {
            let Node::Dir(names) = &self.nodes[node] else { continue };
            for (name, &child) in names {
                match &self.nodes[child] {
                    Node::File(content, _) => {
                        files.insert((path.join(&**name), content.len()));
                    }
                    Node::Dir(_) => dirs.push((path.join(&**name), child)),
                }
            }
        }
        files.into_iter().collect()
    }

    /// The bytes of a file, or `None` if there is no such file.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let Node::File(content, _) = &self.nodes[self.find(path.as_ref())?] else { return None };
        let mut bytes = vec![0; content.len() as usize];
        content.read(0, &mut bytes);
        Some(bytes)
    }

    /// Puts a file with these bytes at `path`, replacing any file there, and makes missing directories.
    ///
    /// # Errors
    /// Paths with `..` or names that are not UTF-8, and a file where a directory should be.
    pub fn insert(&mut self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        self.put(path.as_ref(), Arc::new(Content::of(bytes)))
    }

    fn put(&mut self, path: &Path, content: Arc<Content>) -> Result<()> {
        let (parents, name) = split("create", path)?;
        let nodes = Arc::make_mut(&mut self.nodes);
        let mut dir = 0;
        for parent in parents {
            dir = child_or(nodes, dir, parent, || Node::Dir(BTreeMap::new()))
                .ok_or_else(|| super::path::not_a_dir("create", path))?;
        }
        let file = Node::File(content, 0);
        let at = child_or(nodes, dir, name, || file.clone()).ok_or_else(|| super::path::not_a_dir("create", path))?;
        if matches!(nodes[at], Node::Dir(_)) {
            return Err(super::path::is_a_dir("create", path));
        }
        nodes[at] = file;
        Ok(())
    }

    /// Flips bit `bit` of the byte at `offset`, as a failing medium would. False if there is no such byte.
    pub fn flip_bit(&mut self, path: impl AsRef<Path>, offset: u64, bit: u8) -> bool {
        let Some(node) = self.find(path.as_ref()) else { return false };
        let Node::File(content, _) = &mut Arc::make_mut(&mut self.nodes)[node] else { return false };
        Arc::make_mut(content).flip_bit(offset, bit)
    }

    /// Removes a file, or a directory with everything in it. False if there is nothing of that name.
    pub fn remove(&mut self, path: impl AsRef<Path>) -> bool {
        let Ok((parents, name)) = split("remove", path.as_ref()) else { return false };
        let nodes = Arc::make_mut(&mut self.nodes);
        let dir = parents.into_iter().try_fold(0, |node, name| match &nodes[node] {
            Node::Dir(names) => names.get(name).copied(),
            Node::File(..) => None,
        });
        match dir.map(|dir| &mut nodes[dir]) {
            // The removed node stays in `nodes`, but nothing leads to it any more.
            Some(Node::Dir(names)) => names.remove(name).is_some(),
            _ => false,
        }
    }

    /// Cuts a file off at `len` bytes. False if there is no such file, or it is no longer than that.
    pub fn cut(&mut self, path: impl AsRef<Path>, len: u64) -> bool {
        let Some(node) = self.find(path.as_ref()) else { return false };
        match &mut Arc::make_mut(&mut self.nodes)[node] {
            Node::File(content, _) if content.len() > len => {
                Arc::make_mut(content).set_len(len);
                true
            }
            _ => false,
        }
    }

    /// Puts a copy of the file `from` of `other` at `path`, holes included, replacing any file there. False if there is
    /// no such file.
    ///
    /// # Errors
    /// As [`DiskImage::insert`].
    pub fn graft(&mut self, path: impl AsRef<Path>, other: &DiskImage, from: impl AsRef<Path>) -> Result<bool> {
        let Some(node) = other.find(from.as_ref()) else { return Ok(false) };
        let Node::File(content, _) = &other.nodes[node] else { return Ok(false) };
        self.put(path.as_ref(), Arc::clone(content))?;
        Ok(true)
    }

    fn find(&self, path: &Path) -> Option<usize> {
        components("read", path).ok()?.into_iter().try_fold(0, |node, name| match &self.nodes[node] {
            Node::Dir(names) => names.get(name).copied(),
            Node::File(..) => None,
        })
    }

    /// The inodes of a machine that starts with this disk, and the next free inode number. Numbers are node indices.
    pub(super) fn mount(&self) -> (Arc<DirInode>, u64) {
        let mut links = vec![0_u32; self.nodes.len()];
        for node in self.nodes.iter() {
            if let Node::Dir(names) = node {
                names.values().for_each(|&child| links[child] += 1);
            }
        }
        let mut inodes = Vec::with_capacity(self.nodes.len());
        for (number, node) in self.nodes.iter().enumerate() {
            inodes.push(match node {
                Node::File(content, reserved) => {
                    let mut state = FileState::of(Arc::clone(content), *reserved);
                    state.links = links[number];
                    Inode::File(Arc::new(FileInode { number: number as u64, state: Mutex::new(state) }))
                }
                Node::Dir(_) => {
                    Inode::Dir(Arc::new(DirInode { number: number as u64, state: Mutex::new(DirState::default()) }))
                }
            });
        }
        for (inode, node) in inodes.iter().zip(self.nodes.iter()) {
            if let (Inode::Dir(dir), Node::Dir(names)) = (inode, node) {
                let names: Names =
                    names.iter().map(|(name, &child)| (Arc::clone(name), inodes[child].clone())).collect();
                *dir.state.lock() = DirState { durable: names.clone(), names };
            }
        }
        let root = match &inodes[0] {
            Inode::Dir(root) => Arc::clone(root),
            Inode::File(_) => unreachable!("node 0 is made a directory and stays one"),
        };
        (root, self.nodes.len() as u64)
    }

    #[cfg(test)]
    pub(super) fn content(&self, path: &Path) -> Option<Arc<Content>> {
        match &self.nodes[self.find(path)?] {
            Node::File(content, _) => Some(Arc::clone(content)),
            Node::Dir(_) => None,
        }
    }
}

/// The child `name` of `dir`, made if missing; `None` if `dir` is a file.
fn child_or(nodes: &mut Vec<Node>, dir: usize, name: &str, make: impl FnOnce() -> Node) -> Option<usize> {
    let next = nodes.len();
    let Node::Dir(names) = &mut nodes[dir] else { return None };
    if let Some(&child) = names.get(name) {
        return Some(child);
    }
    names.insert(Arc::from(name), next);
    nodes.push(make());
    Some(next)
}
