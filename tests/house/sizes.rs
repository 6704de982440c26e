//! Types of the router that fit in a head: their fields and methods are counted.

use crate::house::{House, rust_files};
use std::collections::BTreeMap;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, ItemImpl, ItemMod, ItemStruct, Type};

const MOST_FIELDS: usize = 20;
const MOST_METHODS: usize = 25;

/// Fields and methods by type; methods of traits are not counted, nor those of tests.
#[derive(Debug, Default)]
struct Sizes {
    fields: BTreeMap<String, usize>,
    methods: BTreeMap<String, usize>,
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().is_ident("cfg") && it.parse_args::<syn::Ident>().is_ok_and(|word| word == "test")
    })
}

impl<'ast> Visit<'ast> for Sizes {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.fields.insert(item.ident.to_string(), item.fields.len());
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let Type::Path(path) = &*item.self_ty else { return };
        let Some(name) = path.path.segments.last().filter(|_| item.trait_.is_none()) else {
            return;
        };
        let methods = item.items.iter().filter(|it| matches!(it, ImplItem::Fn(_))).count();
        *self.methods.entry(name.ident.to_string()).or_default() += methods;
    }
}

fn too_large(counts: &BTreeMap<String, usize>, most: usize) -> Vec<String> {
    let large = counts.iter().filter(|(_, count)| **count > most);
    large.map(|(name, count)| format!("{name}: {count}, at most {most}")).collect()
}

#[test]
fn types_of_the_router_have_few_fields_and_methods() {
    let mut sizes = Sizes::default();
    let mut files = Vec::new();
    for (name, folder) in House::read().crates() {
        if name == "router" {
            rust_files(&folder.join("src"), &mut files);
        }
    }
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        sizes.visit_file(&syn::parse_file(&text).expect("the crate compiles"));
    }
    assert!(sizes.methods.contains_key("Router"), "{files:?}");
    assert_eq!(too_large(&sizes.fields, MOST_FIELDS), [""; 0], "fields");
    assert_eq!(too_large(&sizes.methods, MOST_METHODS), [""; 0], "methods");
}

#[test]
fn fields_and_methods_are_counted_over_files() {
    let mut sizes = Sizes::default();
    for text in [
        "struct Router { a: u8, b: u8 } impl Router { fn a() {} } impl Drop for Router { fn drop() {} }",
        "impl super::Router { const C: u8 = 1; pub fn b() {} }
         #[cfg(test)] mod tests { impl Router { fn c() {} } }",
    ] {
        sizes.visit_file(&syn::parse_file(text).unwrap());
    }
    assert_eq!((sizes.fields["Router"], sizes.methods["Router"]), (2, 2));
    assert_eq!(too_large(&sizes.methods, 1), ["Router: 2, at most 1"]);
}
