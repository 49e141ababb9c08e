//! Paths of the simulated disk: plain names below one root.

use std::io;
use std::path::{Component, Path};

use crate::{Error, ErrorKind, Result};

/// The components of `path`. A leading `/` means nothing: everything is below the root.
pub(super) fn components<'a>(action: &'static str, path: &'a Path) -> Result<Vec<&'a str>> {
    let mut names = Vec::with_capacity(8);
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str().ok_or_else(|| {
                Error::new(ErrorKind::Invalid, action, path, "the simulated disk has UTF-8 names only")
            })?),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(Error::new(ErrorKind::Invalid, action, path, "the simulated disk knows no `..`"));
            }
        }
    }
    Ok(names)
}

/// The directories on the way to `path`, and the last component.
pub(super) fn split<'a>(action: &'static str, path: &'a Path) -> Result<(Vec<&'a str>, &'a str)> {
    let mut names = components(action, path)?;
    let name = names.pop().ok_or_else(|| is_a_dir(action, path))?;
    Ok((names, name))
}

pub(super) fn not_found(action: &'static str, path: &Path) -> Error {
    Error::from_std(action, path, &io::ErrorKind::NotFound.into())
}

pub(super) fn exists(action: &'static str, path: &Path) -> Error {
    Error::from_std(action, path, &io::ErrorKind::AlreadyExists.into())
}

pub(super) fn is_a_dir(action: &'static str, path: &Path) -> Error {
    Error::from_std(action, path, &io::ErrorKind::IsADirectory.into())
}

pub(super) fn not_a_dir(action: &'static str, path: &Path) -> Error {
    Error::from_std(action, path, &io::ErrorKind::NotADirectory.into())
}

pub(super) fn not_empty(action: &'static str, path: &Path) -> Error {
    Error::from_std(action, path, &io::ErrorKind::DirectoryNotEmpty.into())
}
