//! Names that a module defines and uses, by its syntax tree.

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, File, Item, ItemMod, ItemUse, Macro, Token, UseTree, Visibility};

/// A path in a module.
#[derive(Debug)]
pub struct Import {
    /// Its words.
    pub path: Vec<String>,
    /// In a `use`: its name in the module, `*` for everything.
    pub alias: Option<String>,
    /// True if the path uses the item, false if it re-exports the item (`pub use`).
    pub counts: bool,
}

/// Returns all paths in a module, without its submodules and items for tests.
pub fn imports(items: &[&Item]) -> Vec<Import> {
    let mut seen = Seen(vec![]);
    for item in items.iter().filter(|item| !matches!(item, Item::Mod(_))) {
        seen.visit_item(item);
    }
    seen.0
}

/// Returns true if an item is compiled for tests only.
pub fn is_for_tests(item: &Item) -> bool {
    let attributes = match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => return false,
    };
    for_tests(attributes)
}

fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "test")
    })
}

/// Returns the items in calls of macros, such as `named! { enum … }`.
pub fn items_in_macros(items: &[Item]) -> Vec<Item> {
    let calls = items.iter().filter_map(|item| match item {
        Item::Macro(it) => syn::parse2::<File>(it.mac.tokens.clone()).ok(),
        _ => None,
    });
    calls.flat_map(|file| file.items).collect()
}

/// Returns the name that an item defines.
pub fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Macro(it) => it.ident.as_ref()?,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(name.to_string())
}

struct Seen(Vec<Import>);

impl Seen {
    fn tree(&mut self, tree: &UseTree, before: &[String], counts: bool) {
        let and = |word: &syn::Ident| [before, &[word.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&path.tree, &and(&path.ident), counts),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(tree, before, counts));
            }
            // `a::{self}` is `a`.
            UseTree::Name(name) if name.ident == "self" && !before.is_empty() => {
                self.add(before.to_vec(), before.last().cloned(), counts);
            }
            UseTree::Name(name) => {
                self.add(and(&name.ident), Some(name.ident.to_string()), counts);
            }
            UseTree::Rename(name) => {
                self.add(and(&name.ident), Some(name.rename.to_string()), counts);
            }
            UseTree::Glob(_) => self.add(before.to_vec(), Some("*".to_owned()), counts),
        }
    }

    fn add(&mut self, path: Vec<String>, alias: Option<String>, counts: bool) {
        // A crate's name that stands for itself leads nowhere.
        if path.len() > 1 || alias.as_ref() != path.first() {
            self.0.push(Import { path, alias, counts });
        }
    }
}

impl<'ast> Visit<'ast> for Seen {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !for_tests(&item.attrs) {
            self.tree(&item.tree, &[], matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.0.push(Import { path: words, alias: None, counts: true });
        visit::visit_path(self, path);
    }

    /// The arguments of most macros are expressions: `format!`, `assert!`, `vec!`.
    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Ok(arguments) = call.parse_body_with(parser) {
            // Not borrowed from the file: the arguments are parsed here.
            let mut inner = Seen(vec![]);
            arguments.iter().for_each(|argument| inner.visit_expr(argument));
            self.0.append(&mut inner.0);
        }
    }
}
