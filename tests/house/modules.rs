//! The modules of a crate, read from its sources, and the targets of paths in them.

use crate::sight::{self, Import};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use syn::Item;

/// A module, as its path from the root of the crate: `["probe", "load"]`; the root is `[]`.
pub type Name = Vec<String>;

/// Meaning of a name in a module.
#[derive(Debug)]
enum Thing {
    /// Something defined there, or a child module that is written in the same file.
    Own,
    /// Something from elsewhere, as the `use` says it.
    Imported(Vec<String>),
}

/// A module's file, names and imports.
#[derive(Debug)]
struct Module {
    /// Path of its file, relative to the crate's `src`.
    file: PathBuf,
    things: BTreeMap<String, Thing>,
    /// Modules that are imported whole (`*`).
    globs: Vec<Vec<String>>,
    imports: Vec<Import>,
}

/// Target of a path.
enum Place {
    Module,
    /// Something defined in this module.
    In(Name),
}

/// Most steps from a name to its definition.
const DEPTH: u32 = 16;

/// All modules of a crate except modules for tests.
#[derive(Debug, Default)]
pub struct Modules(BTreeMap<Name, Module>);

impl Modules {
    /// Reads a crate from its root file, `lib.rs` or `main.rs`.
    pub fn read(root: &Path) -> Self {
        let mut modules = Self::default();
        let source = root.parent().expect("a file is in a folder");
        modules.file(source, root, source, vec![]);
        modules
    }

    /// Returns the imports between files: (user, used) with a path that shows it, each pair once.
    pub fn imports(&self) -> BTreeMap<(PathBuf, PathBuf), String> {
        let mut edges = BTreeMap::new();
        for (name, module) in &self.0 {
            for import in module.imports.iter().filter(|import| import.counts) {
                let Some(Place::In(used)) = self.find(name, &import.path, 0) else { continue };
                let used = &self.0[&used].file;
                if *used != module.file {
                    edges
                        .entry((module.file.clone(), used.clone()))
                        .or_insert_with(|| import.path.join("::"));
                }
            }
        }
        edges
    }

    fn file(&mut self, source: &Path, path: &Path, children: &Path, name: Name) {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let relative = path.strip_prefix(source).expect("it is below").to_owned();
        self.module(source, &relative, children, name, &file.items);
    }

    /// Adds a module and those below it; files of children are looked for in `children`.
    fn module(&mut self, source: &Path, file: &Path, children: &Path, name: Name, items: &[Item]) {
        let in_macros = sight::items_in_macros(items);
        let all = items.iter().chain(&in_macros);
        let items: Vec<&Item> = all.filter(|item| !sight::is_for_tests(item)).collect();
        let mut module = Module {
            file: file.to_owned(),
            things: BTreeMap::new(),
            globs: vec![],
            imports: sight::imports(&items),
        };
        for own in items.iter().filter_map(|item| sight::name(item)) {
            module.things.insert(own, Thing::Own);
        }
        for import in &module.imports {
            match &import.alias {
                Some(alias) if alias == "*" => module.globs.push(import.path.clone()),
                Some(alias) => {
                    module.things.insert(alias.clone(), Thing::Imported(import.path.clone()));
                }
                None => {}
            }
        }
        for item in items {
            let Item::Mod(child) = item else { continue };
            let word = child.ident.to_string();
            let below = [name.clone(), vec![word.clone()]].concat();
            module.things.remove(&word);
            if let Some((_, items)) = &child.content {
                self.module(source, file, &children.join(&word), below, items);
                continue;
            }
            let flat = children.join(format!("{word}.rs"));
            let path = if flat.exists() { flat } else { children.join(&word).join("mod.rs") };
            self.file(source, &path, &children.join(&word), below);
        }
        self.0.insert(name, module);
    }

    /// Finds the target of a path written in `module`; `None` if it is out of the crate.
    fn find(&self, module: &Name, path: &[String], depth: u32) -> Option<Place> {
        let (first, rest) = path.split_first().filter(|_| depth <= DEPTH)?;
        match first.as_str() {
            "crate" => self.walk(vec![], rest, depth),
            "self" => self.walk(module.clone(), rest, depth),
            "super" => {
                let above = module[..module.len().checked_sub(1)?].to_vec();
                let supers = rest.iter().take_while(|word| *word == "super").count();
                let above = above[..above.len().checked_sub(supers)?].to_vec();
                self.walk(above, &rest[supers..], depth)
            }
            _ if self.has(module, first) => self.walk(module.clone(), path, depth),
            _ => self.by_glob(module, path, depth),
        }
    }

    /// Finds the target of a path by the globs that a module imports from this crate.
    fn by_glob(&self, module: &Name, path: &[String], depth: u32) -> Option<Place> {
        let known = |word: &String| {
            ["crate", "self", "super"].contains(&word.as_str()) || self.has(module, word)
        };
        let globs = self.0[module].globs.iter().filter(|glob| glob.first().is_some_and(known));
        globs.filter_map(|glob| self.find(module, &[glob, path].concat(), depth + 1)).next()
    }

    /// Returns true if a word names an item or a module of this crate in a module.
    fn has(&self, module: &Name, word: &str) -> bool {
        let below = [module.clone(), vec![word.to_owned()]].concat();
        self.0.contains_key(&below) || self.0[module].things.contains_key(word)
    }

    fn walk(&self, mut at: Name, path: &[String], depth: u32) -> Option<Place> {
        for (index, word) in path.iter().enumerate() {
            let below = [at.clone(), vec![word.clone()]].concat();
            if self.0.contains_key(&below) {
                at = below;
                continue;
            }
            let module = &self.0[&at];
            return match module.things.get(word) {
                Some(Thing::Own) => Some(Place::In(at)),
                Some(Thing::Imported(from)) => {
                    // A name that stands for itself is of another crate: `use serde::Serialize`.
                    let from = [from, &path[index + 1..]].concat();
                    self.find(&at, &from, depth + 1)
                }
                None => self.by_glob(&at, &path[index..], depth),
            };
        }
        Some(Place::Module)
    }
}
