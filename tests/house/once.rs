//! Definitions that were once in several places are in one: the counters of a port, the address
//! family, and the grammar of a file of routes.

use crate::house::{House, rust_files};
use syn::visit::{self, Visit};
use syn::{Fields, ItemEnum, ItemMacro, ItemStruct};

/// A counter that every port queue has, and nothing else.
const COUNTER: &str = "receive_invalid";
/// Names of the variants of an address family.
const FAMILIES: [[&str; 2]; 5] =
    [["V4", "V6"], ["Ipv4", "Ipv6"], ["Ip4", "Ip6"], ["Inet", "Inet6"], ["Four", "Six"]];

/// Definitions of these in a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Defined {
    counters: Vec<String>,
    families: Vec<String>,
}

impl Defined {
    fn by(text: &str) -> Self {
        let mut defined = Self::default();
        defined.visit_file(&syn::parse_file(text).expect("the crate compiles"));
        defined
    }
}

/// Whether a file reads prefixes out of lines of words, its tests at the end aside.
fn has_grammar(text: &str) -> bool {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let nets = ["IpNet", "Ipv4Net", "Ipv6Net"];
    let parses = |net: &str| {
        text.contains(&format!("parse::<{net}>")) || text.contains(&format!(": {net} = "))
    };
    nets.iter().any(|net| parses(net)) && text.contains("split_whitespace")
}

impl<'ast> Visit<'ast> for Defined {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let is_it = |field: &syn::Field| field.ident.as_ref().is_some_and(|name| name == COUNTER);
        if item.fields.iter().any(is_it) {
            self.counters.push(item.ident.to_string());
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        // A list from which a macro makes structs: its names stand alone.
        let list: Vec<_> = item.mac.tokens.clone().into_iter().map(|it| it.to_string()).collect();
        if list.windows(2).any(|pair| pair == [COUNTER, ","]) {
            self.counters.push(item.mac.path.segments[0].ident.to_string());
        }
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        let names: Vec<String> = item.variants.iter().map(|it| it.ident.to_string()).collect();
        let is_plain = item.variants.iter().all(|it| matches!(it.fields, Fields::Unit));
        if is_plain && FAMILIES.iter().any(|family| names == *family) {
            self.families.push(item.ident.to_string());
        }
    }
}

#[test]
fn counters_of_a_port_the_address_family_and_files_of_routes_are_defined_once() {
    let (mut counters, mut families, mut grammars) = (Vec::new(), Vec::new(), Vec::new());
    let mut files = Vec::new();
    for (_, folder) in House::read().crates() {
        rust_files(&folder.join("src"), &mut files);
    }
    assert!(files.len() > 500, "sources were found: {}", files.len());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let defined = Defined::by(&text);
        counters.extend(defined.counters.iter().map(|name| (name.clone(), file)));
        families.extend(defined.families.iter().map(|name| (name.clone(), file)));
        grammars.extend(has_grammar(&text).then_some(file));
    }
    // As they are counted, and as a daemon says them: the compiler holds the fields together.
    let [(name, file), (said, contract)] = &counters[..] else {
        panic!("counters of a port: {counters:#?}")
    };
    assert!(name == "port_counters" && file.ends_with("dataplane/src/counters.rs"), "{file:?}");
    assert!(said == "PortCounters" && contract.ends_with("status/src/router.rs"), "{contract:?}");
    let [(name, file)] = &families[..] else { panic!("address families: {families:#?}") };
    assert!(name == "Family" && file.ends_with("packet/src/family.rs"), "{file:?}");
    let [file] = &grammars[..] else { panic!("readers of files of routes: {grammars:#?}") };
    assert!(file.ends_with("fib/src/routes_file.rs"), "{file:?}");
}

#[test]
fn a_second_definition_is_seen() {
    let defined = Defined::by(
        "pub struct Losses { receive_invalid: u64 }
         counts! { received, receive_invalid, }
         mod inner { enum Version { Ipv4, Ipv6 } enum Order { First, Second } }",
    );
    assert_eq!(defined.counters, ["Losses", "counts"]);
    assert_eq!(defined.families, ["Version"]);
    assert!(has_grammar("let net: Ipv4Net = line.split_whitespace().next()?.parse().ok()?;"));
    assert!(has_grammar("line.split_whitespace().map(|word| word.parse::<IpNet>())"));
    let only_tests =
        "fn f(text: &str) { text.parse::<IpNet>(); }\n#[cfg(test)]\nmod tests { split_whitespace }";
    assert!(!has_grammar(only_tests));
}
