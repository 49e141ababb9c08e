//! The graph of which files of a crate depend on which.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Module, Path};

/// For each file the files it depends on, each with the first line that says so (1-based).
#[derive(Debug, Default)]
pub struct Graph(BTreeMap<String, BTreeMap<String, usize>>);

impl Graph {
    /// The graph of a crate. `folder` is the folder of its root; `files` are its sources by path.
    pub fn new(folder: &str, files: &[(&str, &str)]) -> Self {
        let mut modules = Modules::default();
        for (file, source) in files {
            modules.add(module_path(folder, file), file, Module::parse(source));
        }
        modules.leave_tests_out();
        let mut graph = Self::default();
        for (path, place) in &modules.places {
            graph.0.entry(place.file.clone()).or_default();
            for (name, line, _) in &place.module.declared {
                if let Some(child) = modules.places.get(&child_of(path, name)) {
                    graph.add(&place.file, &child.file, *line);
                }
            }
            let globs = place.module.globs.iter().map(|path| (path, 0));
            for (named, line) in place.module.named.iter().map(|(path, line)| (path, *line)).chain(globs) {
                let is_glob = line == 0;
                match modules.resolve(path, named, &mut BTreeSet::new()) {
                    Some(Target::Item(module)) => graph.name(&modules, path, &module, line),
                    Some(Target::Module(module)) if is_glob => graph.name(&modules, path, &module, line),
                    _ => {}
                }
            }
        }
        graph
    }

    /// All files, in order.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The files that `file` depends on.
    pub fn get(&self, file: &str) -> Option<&BTreeMap<String, usize>> {
        self.0.get(file)
    }

    fn add(&mut self, from: &str, to: &str, line: usize) {
        if from != to {
            self.0.entry(from.to_owned()).or_default().entry(to.to_owned()).or_insert(line);
        }
    }

    /// Notes that module `from` names something of module `to`; a module that `from` is a part of does not count.
    fn name(&mut self, modules: &Modules, from: &Path, to: &Path, line: usize) {
        if !from.starts_with(to) {
            self.add(&modules.places[from].file, &modules.places[to].file, line);
        }
    }
}

/// The module of a file: `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`; `lib.rs` and `main.rs` are the root.
fn module_path(folder: &str, file: &str) -> Path {
    let inner = file.trim_start_matches(folder).trim_start_matches('/').trim_end_matches(".rs");
    let mut path: Path = inner.split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| last == "mod")
        || matches!(path[..], [ref only] if only == "lib" || only == "main")
    {
        path.pop();
    }
    path
}

fn child_of(path: &Path, name: &str) -> Path {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

struct ModuleFile {
    file: String,
    module: Module,
}

/// What a path leads to.
enum Target {
    Module(Path),
    /// Something that this module defines.
    Item(Path),
}

/// All modules of a crate by their paths.
#[derive(Default)]
struct Modules {
    places: BTreeMap<Path, ModuleFile>,
    /// Macros that are exported to the root, and where they are defined.
    macros: BTreeMap<String, Path>,
}

impl Modules {
    fn add(&mut self, path: Path, file: &str, mut module: Module) {
        self.macros.extend(module.exported.drain(..).map(|name| (name, path.clone())));
        for (name, inner) in std::mem::take(&mut module.inline) {
            self.add(child_of(&path, &name), file, inner);
        }
        self.places.insert(path, ModuleFile { file: file.to_owned(), module });
    }

    /// Forgets the modules that are declared only for tests, with everything in them.
    fn leave_tests_out(&mut self) {
        let declared = |(path, place): (&Path, &ModuleFile)| {
            let for_tests = place.module.declared.iter().filter(|(.., for_tests)| *for_tests);
            for_tests.map(|(name, ..)| child_of(path, name)).collect::<Vec<_>>()
        };
        let tests: Vec<Path> = self.places.iter().flat_map(declared).collect();
        self.places.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
    }

    /// Where the path `named` leads, written in module `at`; `None` if it leads out of this crate. `under_way` are the
    /// imports that are being followed.
    fn resolve(&self, at: &Path, named: &[String], under_way: &mut BTreeSet<(Path, Path)>) -> Option<Target> {
        if !under_way.insert((at.clone(), named.to_vec())) {
            return None;
        }
        let (mut current, mut rest) = (at.clone(), named);
        match named.first()?.as_str() {
            "crate" => (current, rest) = (Path::new(), &named[1..]),
            "self" => rest = &named[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    current.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let module = &self.places.get(at)?.module;
                let is_known = self.places.contains_key(&child_of(at, first))
                    || module.defined.iter().any(|name| name == first)
                    || module.imported.iter().any(|(name, path)| name == first && path[..] != named[..1]);
                is_known.then_some(())?;
            }
        }
        while let [name, behind @ ..] = rest {
            let module = &self.places.get(&current)?.module;
            let (child, is_defined) = (child_of(&current, name), module.defined.contains(name));
            let is_module = self.places.contains_key(&child);
            if is_defined && (behind.is_empty() || !is_module) {
                return Some(Target::Item(current));
            }
            if is_module {
                current = child;
            } else if let Some((_, path)) = module.imported.iter().find(|(alias, _)| alias == name) {
                match self.resolve(&current, path, under_way)? {
                    Target::Module(module) => current = module,
                    item => return Some(item),
                }
            } else if let Some(place) = self.macros.get(name).filter(|_| current.is_empty()) {
                return Some(Target::Item(place.clone()));
            } else {
                // The name comes by a glob, or a macro wrote it.
                let by_glob = module.globs.iter().find_map(|glob| {
                    let path: Path = glob.iter().chain([name]).cloned().collect();
                    self.resolve(&current, &path, under_way)
                });
                return by_glob.or(Some(Target::Item(current)));
            }
            rest = behind;
        }
        Some(Target::Module(current))
    }
}
