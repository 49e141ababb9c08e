//! Libraries of functions (`FUNCTION LOAD`): the functions that one library has registered, and all libraries of a
//! tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_command::error::{Error, Outcome};

use crate::source::SOURCE_BYTES_MAX;

/// The flags that a function may have, as bits of [`Declared::flags`] from the lowest one on.
pub const FLAGS: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// A function that a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The function's name: letters, digits and underscores.
    pub name: String,
    /// The author's description.
    pub description: Option<Vec<u8>>,
    /// The function's flags, as bits: see [`FLAGS`].
    pub flags: u8,
}

impl Declared {
    /// Bytes of the name and the description.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.description.as_ref().map_or(0, Vec::len)
    }

    /// Whether the function declares that it writes nothing.
    pub fn writes_nothing(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// A library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The library's name: letters, digits and underscores.
    pub name: String,
    /// The code, with its first line.
    pub code: Vec<u8>,
    /// The library's functions, by name.
    pub functions: Vec<Declared>,
}

/// All libraries of a tenant at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// A number that changes whenever a library changes.
    pub version: u64,
    all: BTreeMap<String, Arc<Library>>,
    /// The library of each function, by the function's name in lower case: clients may call it in any case.
    functions: BTreeMap<String, Arc<Library>>,
}

impl Libraries {
    /// All libraries, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.all.values()
    }

    /// How many functions all libraries have.
    pub fn functions(&self) -> usize {
        self.functions.len()
    }

    /// Bytes of code in all libraries, and of the names and descriptions of their functions.
    pub fn bytes(&self) -> usize {
        let of_functions = |library: &Library| library.functions.iter().map(Declared::bytes).sum::<usize>();
        self.all.values().map(|library| library.code.len() + of_functions(library)).sum()
    }

    /// The library of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Library>> {
        self.all.get(name)
    }

    /// The function of this name, in upper or lower case.
    pub fn function(&self, name: &str) -> Option<&Declared> {
        let library = self.functions.get(&name.to_ascii_lowercase())?;
        library.functions.iter().find(|function| function.name.eq_ignore_ascii_case(name))
    }

    /// Adds `library`; with `replaces`, in place of a library of the same name.
    ///
    /// # Errors
    /// There is a library of this name; or one of the functions has the name of another library's function.
    pub fn add(&mut self, library: Library, replaces: bool) -> Outcome {
        if !replaces && self.all.contains_key(&library.name) {
            return Err(Error::bytes(format!("ERR Library '{}' already exists", library.name).into_bytes()));
        }
        let mut own = BTreeSet::new();
        let is_taken = |function: &&Declared| {
            let name = function.name.to_ascii_lowercase();
            self.functions.get(&name).is_some_and(|other| other.name != library.name) || !own.insert(name)
        };
        if let Some(function) = library.functions.iter().find(is_taken) {
            return Err(Error::bytes(format!("ERR Function {} already exists", function.name).into_bytes()));
        }
        self.remove(&library.name.clone());
        let library = Arc::new(library);
        for function in &library.functions {
            self.functions.insert(function.name.to_ascii_lowercase(), Arc::clone(&library));
        }
        self.all.insert(library.name.clone(), library);
        Ok(())
    }

    /// Removes the library of this name; `false` if there is none.
    pub fn remove(&mut self, name: &str) -> bool {
        self.functions.retain(|_, library| library.name != name);
        self.all.remove(name).is_some()
    }
}

/// Whether `name` may be the name of a library or a function.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The text between quotes, or all of `value` if it has none.
fn without_quotes(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inside @ .., b'"'] | [b'\'', inside @ .., b'\''] => inside,
        _ => value,
    }
}

/// The name that the first line of `code` gives a library.
///
/// # Errors
/// The line is malformed; or the library is too long.
pub(crate) fn name_of(code: &[u8]) -> Outcome<String> {
    if code.len() > SOURCE_BYTES_MAX {
        return Err(Error::new("ERR a library is at most 1 MB long"));
    }
    if !code.starts_with(b"#!") {
        return Err(Error::new("ERR Missing library metadata"));
    }
    let end = code.iter().position(|&byte| byte == b'\n').ok_or(Error::new("ERR Invalid library metadata"))?;
    let mut words = code[2..end].split(|byte| byte.is_ascii_whitespace());
    // The engine's name may be missing in front of the first blank.
    let engine = words.next().unwrap_or_default();
    let mut name = None;
    for word in words.filter(|word| !word.is_empty()) {
        let Some(value) = word.strip_prefix(b"name=") else {
            return Err(Error::bytes([b"ERR Invalid metadata value given: ", word].concat()));
        };
        if name.replace(without_quotes(value)).is_some() {
            return Err(Error::new("ERR Invalid metadata value, name argument was given multiple times"));
        }
    }
    let name = name.ok_or(Error::new("ERR Library name was not given"))?;
    let text = std::str::from_utf8(name).ok().filter(|name| is_name(name.as_bytes()));
    let text = text.ok_or(Error::new(
        "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
    ))?;
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Error::bytes([b"ERR Engine '", engine, b"' not found"].concat()));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, functions: &[&str]) -> Library {
        let declared = |name: &&str| Declared { name: (*name).to_owned(), description: None, flags: 0 };
        Library { name: name.to_owned(), code: b"#!lua".to_vec(), functions: functions.iter().map(declared).collect() }
    }

    #[test]
    fn names_are_told_apart() {
        let mut all = Libraries::default();
        assert!(all.add(library("a", &["f", "g"]), false).is_ok());
        let text = |outcome: Outcome| outcome.expect_err("it is there").text().to_vec();
        assert_eq!(text(all.add(library("a", &["h"]), false)), b"ERR Library 'a' already exists");
        assert_eq!(text(all.add(library("b", &["g"]), true)), b"ERR Function g already exists");
        assert!(all.add(library("a", &["g", "h"]), true).is_ok());
        assert!(all.function("f").is_none() && all.function("h").is_some() && all.functions() == 2);
        assert_eq!(all.function("H").map(|function| &function.name[..]), Some("h"));
        assert_eq!(text(all.add(library("b", &["H"]), true)), b"ERR Function H already exists");
        assert_eq!(text(all.add(library("b", &["x", "X"]), true)), b"ERR Function X already exists");
        assert!(all.remove("a") && !all.remove("a") && all.functions() == 0);
    }

    #[test]
    fn the_first_line_is_checked() {
        let error = |code: &str| name_of(code.as_bytes()).map_err(|error| error.text().to_vec());
        assert_eq!(error("#!lua name=a_1\n"), Ok("a_1".to_owned()));
        assert_eq!(error("#!LUA name=a\n"), Ok("a".to_owned()));
        assert_eq!(error("#!lua name=\"a\"\n"), Ok("a".to_owned()));
        assert_eq!(error("#! name=a\n"), Err(b"ERR Engine '' not found".to_vec()));
        assert_eq!(error("#!foo name=x\n"), Err(b"ERR Engine 'foo' not found".to_vec()));
        assert_eq!(error("#!lua\n"), Err(b"ERR Library name was not given".to_vec()));
        assert_eq!(error("return 1"), Err(b"ERR Missing library metadata".to_vec()));
    }
}
