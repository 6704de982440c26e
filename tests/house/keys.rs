//! Readers of a daemon's answers name no JSON key: they use the types of crate `status`.

use crate::documents::root;
use crate::house::rust_files;
use crate::sight::is_for_tests;
use syn::visit::{self, Visit};
use syn::{Expr, ExprIndex, ExprMethodCall, Lit, Macro, Token};

/// Crates whose code talks to a daemon or is one. The commands of `wattline` that read other JSON are
/// excepted below.
const READERS: [&str; 10] = [
    "daemon",
    "router",
    "govern",
    "demo",
    "status",
    "wattline",
    "filter",
    "flow-records",
    "ipsec",
    "redundancy",
];

/// Files that read other JSON or TOML by key, with the reason.
const OTHERS: &[(&str, &str)] = &[
    ("daemon/src/stream.rs", "the frame around documents: `bytes`, `event` and `end`"),
    ("status/src/reference.rs", "reads JSON schemas, whose keys are those of their standard"),
];

/// Finds `value["key"]`, `.get("key")`, `.get_mut("key")` and `.pointer("/key")`.
#[derive(Default)]
struct Keys(Vec<String>);

fn text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        Expr::Reference(inner) => text(&inner.expr),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Keys {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_expr_index(&mut self, expression: &'ast ExprIndex) {
        self.0.extend(text(&expression.index));
        visit::visit_expr_index(self, expression);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let reads = ["get", "get_mut", "pointer", "pointer_mut"].iter().any(|it| call.method == it);
        if reads && call.args.len() == 1 {
            self.0.extend(call.args.first().and_then(text));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let parser = syn::punctuated::Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Ok(arguments) = call.parse_body_with(parser) {
            // Not borrowed from the file: the arguments are parsed here.
            let mut inner = Keys::default();
            arguments.iter().for_each(|argument| inner.visit_expr(argument));
            self.0.append(&mut inner.0);
        }
    }
}

fn keys(source: &str) -> Vec<String> {
    let file = syn::parse_file(source).unwrap();
    let mut keys = Keys::default();
    keys.visit_file(&file);
    keys.0
}

#[test]
fn no_reader_names_a_key_of_a_daemons_answer() {
    let crates = root().join("crates");
    let mut files = Vec::new();
    READERS.iter().for_each(|name| rust_files(&crates.join(name).join("src"), &mut files));
    let mut found = Vec::new();
    let mut excepted = vec![false; OTHERS.len()];
    for file in &files {
        let name = file.strip_prefix(&crates).unwrap().display().to_string();
        if name.ends_with("tests.rs") || name.contains("/tests/") {
            continue;
        }
        let keys = keys(&std::fs::read_to_string(file).unwrap());
        match OTHERS.iter().position(|(other, _)| name.starts_with(other)) {
            Some(place) => excepted[place] |= !keys.is_empty(),
            None => found.extend(keys.into_iter().map(|key| format!("{name}: \"{key}\""))),
        }
    }
    assert!(files.len() > 200, "{} files", files.len());
    assert!(
        found.is_empty(),
        "read a type of crate status instead of a key:\n{}",
        found.join("\n")
    );
    let idle = OTHERS.iter().zip(excepted).filter(|(_, used)| !used);
    let idle: Vec<_> = idle.map(|((other, _), _)| other).collect();
    assert!(idle.is_empty(), "not needed as exceptions any more: {idle:?}");
}

#[test]
fn keys_are_found_however_they_are_read() {
    let source = r#"
        fn read(answer: &Value) {
            let one = answer["power"]["watts"].as_f64();
            println!("{}", answer["inside"]);
            answer.get("got");
            answer.pointer("/pointed");
            names["not a literal".len()];
        }
        #[cfg(test)]
        mod tests { fn t(answer: Value) { answer["allowed"]; } }
    "#;
    let mut found = keys(source);
    found.sort_unstable();
    assert_eq!(found, ["/pointed", "got", "inside", "power", "watts"]);
}
