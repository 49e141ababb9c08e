//! The calls of `Fs` on the simulated disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::counters::OpKind;
use super::device::Direction;
use super::disk::{Begun, Land, Outcome, Request, Shared};
use super::fault::Fault;
use super::file::{SimFile, SimVolume};
use super::fs::SimFs;
use super::inode::{DirInode, DirState, FileInode, FileState, Inode};
use super::names::Edit;
use super::path::{components, exists, is_a_dir, not_a_dir, not_empty, not_found, split};
use crate::{Class, DirEntry, Error, ErrorKind, File, Fs, FsLock, Op, OpenOptions, Owner, Result, Tag, Volume};

impl SimFs {
    /// An operation on names: decides what to change, makes the change unless a fault prevents it, and takes its time.
    /// `give` makes the caller's value, only if all went well: a file handle must not be dropped under the lock.
    fn on_names<V, T: Send + Unpin + 'static>(
        &self,
        request: &Request<'_>,
        plan: impl FnOnce(&mut Begun<'_>) -> Result<(Vec<Edit>, V)>,
        give: impl FnOnce(V) -> T,
    ) -> Op<T> {
        let mut begun = match self.shared.begin(request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let done_at = begun.state.device.metadata(begun.now);
        let result = plan(&mut begun).and_then(|(edits, value)| {
            // An operation that changes nothing (making a directory that exists) needs no space.
            let full = request.kind.may_need_space() && begun.state.free_chunks == 0 && !edits.is_empty();
            if begun.fault == Some(Fault::NoSpace) || full {
                return Err(request.no_space());
            }
            if begun.fault.is_none() || begun.state.faults.rng().chance(0.5) {
                let state = &mut *begun.state;
                for inode in state.names.make(begun.number, done_at, edits) {
                    if let Inode::File(file) = inode {
                        state.release(&file);
                    }
                }
            }
            if begun.fault.is_some() { Err(request.io_error()) } else { Ok(give(value)) }
        });
        self.shared.finish(request, begun, Outcome { result, done_at, bytes: 0, land: None })
    }

    fn change_names(&self, request: &Request<'_>, plan: impl FnOnce(&mut Begun<'_>) -> Result<Vec<Edit>>) -> Op<()> {
        self.on_names(request, |begun| Ok((plan(begun)?, ())), |()| ())
    }

    fn handle(&self, inode: Arc<FileInode>, options: OpenOptions, request: &Request<'_>) -> Arc<dyn File> {
        inode.state.lock().handles += 1;
        Arc::new(SimFile::new(Arc::clone(&self.shared), inode, options, request))
    }

    fn create(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let request = Request::on(OpKind::Create, path, tag);
        let plan = |begun: &mut Begun<'_>| {
            let (parents, name) = split("create", path)?;
            let dir = begun.state.dir("create", path, &parents)?;
            if dir.state.lock().names.contains_key(name) {
                return Err(exists("create", path));
            }
            let (number, state) = (begun.state.new_number(), FileState::default());
            let inode = Arc::new(FileInode { number, state: state.into() });
            let edit = Edit::new(&dir, name, Some(Inode::File(Arc::clone(&inode))));
            Ok((vec![edit], inode))
        };
        self.on_names(&request, plan, |inode| self.handle(inode, options, &request))
    }
}

impl Fs for SimFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        if options.create_new {
            return self.create(path, options, tag);
        }
        let request = Request::on(OpKind::Open, path, tag);
        let mut begun = match self.shared.begin(&request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let done_at = begun.state.device.metadata(begun.now);
        let result = match (begun.fault, begun.state.file(path)) {
            (Some(_), _) => Err(request.io_error()),
            (None, None) => Err(not_found("open", path)),
            (None, Some(inode)) => Ok(self.handle(inode, options, &request)),
        };
        self.shared.finish(&request, begun, Outcome { result, done_at, bytes: 0, land: None })
    }

    fn rename(&self, from: &Path, to: &Path, tag: Tag) -> Op<()> {
        self.change_names(&Request::on(OpKind::Rename, from, tag), |begun| {
            let ((from_parents, from_name), (to_parents, to_name)) = (split("rename", from)?, split("rename", to)?);
            let from_dir = begun.state.dir("rename", from, &from_parents)?;
            let to_dir = begun.state.dir("rename", to, &to_parents)?;
            let inode = from_dir.state.lock().names.get(from_name).cloned();
            let inode = inode.ok_or_else(|| not_found("rename", from))?;
            if let Some(Inode::Dir(_)) = to_dir.state.lock().names.get(to_name) {
                return Err(is_a_dir("rename", to));
            }
            if from_dir.number == to_dir.number && from_name == to_name {
                return Ok(Vec::new());
            }
            let edits = vec![Edit::new(&to_dir, to_name, Some(inode)), Edit::new(&from_dir, from_name, None)];
            Ok(edits)
        })
    }

    fn hard_link(&self, from: &Path, to: &Path, tag: Tag) -> Op<()> {
        self.change_names(&Request::on(OpKind::Link, to, tag), |begun| {
            let (parents, name) = split("link", to)?;
            let dir = begun.state.dir("link", to, &parents)?;
            let inode = begun.state.file(from).ok_or_else(|| not_found("link", from))?;
            if dir.state.lock().names.contains_key(name) {
                return Err(exists("link", to));
            }
            Ok(vec![Edit::new(&dir, name, Some(Inode::File(inode)))])
        })
    }

    fn remove(&self, path: &Path, tag: Tag) -> Op<()> {
        self.change_names(&Request::on(OpKind::Remove, path, tag), |begun| {
            let (parents, name) = split("remove", path)?;
            let dir = begun.state.dir("remove", path, &parents)?;
            match dir.state.lock().names.get(name) {
                Some(Inode::File(_)) => {}
                Some(Inode::Dir(_)) => return Err(is_a_dir("remove", path)),
                None => return Err(not_found("remove", path)),
            }
            Ok(vec![Edit::new(&dir, name, None)])
        })
    }

    fn create_dir_all(&self, path: &Path, tag: Tag) -> Op<()> {
        self.change_names(&Request::on(OpKind::CreateDir, path, tag), |begun| {
            let mut dir = Arc::clone(&begun.state.root);
            let mut edits = Vec::new();
            for name in components("create", path)? {
                let found = dir.state.lock().names.get(name).cloned();
                dir = match found {
                    Some(Inode::Dir(next)) => next,
                    Some(Inode::File(_)) => return Err(not_a_dir("create", path)),
                    None => {
                        let number = begun.state.new_number();
                        let made = Arc::new(DirInode { number, state: DirState::default().into() });
                        edits.push(Edit::new(&dir, name, Some(Inode::Dir(Arc::clone(&made)))));
                        made
                    }
                };
            }
            Ok(edits)
        })
    }

    fn remove_dir(&self, path: &Path, tag: Tag) -> Op<()> {
        self.change_names(&Request::on(OpKind::RemoveDir, path, tag), |begun| {
            let (parents, name) = split("remove", path)?;
            let parent = begun.state.dir("remove", path, &parents)?;
            let found = parent.state.lock().names.get(name).cloned();
            match found {
                Some(Inode::Dir(dir)) if dir.state.lock().names.is_empty() => {}
                Some(Inode::Dir(_)) => return Err(not_empty("remove", path)),
                Some(Inode::File(_)) => return Err(not_a_dir("remove", path)),
                None => return Err(not_found("remove", path)),
            }
            Ok(vec![Edit::new(&parent, name, None)])
        })
    }

    fn list(&self, path: &Path, tag: Tag) -> Op<Vec<DirEntry>> {
        let request = Request::on(OpKind::List, path, tag);
        let mut begun = match self.shared.begin(&request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let done_at = begun.state.device.metadata(begun.now);
        let entry = |name: &Arc<str>, inode: &Inode| {
            let (is_dir, len) = match inode {
                Inode::File(file) => (false, file.state.lock().len()),
                Inode::Dir(_) => (true, 0),
            };
            DirEntry { name: name.to_string(), is_dir, len }
        };
        let names = components("list", path).and_then(|names| begun.state.dir("list", path, &names));
        let result = match begun.fault {
            Some(_) => Err(request.io_error()),
            None => names.map(|dir| dir.state.lock().names.iter().map(|(name, inode)| entry(name, inode)).collect()),
        };
        self.shared.finish(&request, begun, Outcome { result, done_at, bytes: 0, land: None })
    }

    fn sync_dir(&self, path: &Path, tag: Tag) -> Op<()> {
        let request = Request::on(OpKind::SyncDir, path, tag);
        let mut begun = match self.shared.begin(&request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let done_at = begun.state.device.transfer(begun.now, Direction::Write, 0, true);
        let dir = components("sync the directory", path)
            .and_then(|names| begun.state.dir("sync the directory", path, &names));
        let (result, land) = match (begun.fault, dir) {
            (Some(_), _) => (Err(request.io_error()), None),
            (None, Err(error)) => (Err(error), None),
            (None, Ok(dir)) => (Ok(()), Some(Land::SyncDir(dir))),
        };
        self.shared.finish(&request, begun, Outcome { result, done_at, bytes: 0, land })
    }

    fn volume(&self, path: &Path, _tag: Tag) -> Op<Arc<dyn Volume>> {
        Op::ready(Ok(Arc::new(SimVolume { shared: Arc::clone(&self.shared), path: path.to_path_buf() })))
    }

    fn lock(&self, path: &Path) -> Op<Box<dyn FsLock>> {
        if !self.shared.lock().locks.insert(path.to_path_buf()) {
            let message = "another process holds the lock";
            return Op::ready(Err(Error::new(ErrorKind::Locked, "lock", path, message)));
        }
        let held = Held { shared: Arc::clone(&self.shared), path: path.to_path_buf() };
        if self.shared.lock().file(path).is_none() {
            let tag = Tag::new(Owner::default(), Class::Maintenance);
            if let Op::Ready(Some(Err(error))) = self.create(path, OpenOptions::create_new_buffered(), tag) {
                return Op::ready(Err(error));
            }
        }
        Op::ready(Ok(Box::new(held)))
    }
}

/// A lock; dropping it unlocks.
struct Held {
    shared: Arc<Shared>,
    path: PathBuf,
}

impl FsLock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.lock().locks.remove(&self.path);
    }
}
