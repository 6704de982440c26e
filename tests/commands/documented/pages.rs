//! The pages of the documentation, and the blocks on them that a reader types.

use std::path::{Path, PathBuf};

/// The project's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page's text, by its path from the project's folder.
pub fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All pages that a user reads, in the order of their paths. `commands.md` is generated; its examples
/// have a test of their own.
pub fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in [".", "how-to", "tutorial", "reference", "explanation"] {
        for entry in std::fs::read_dir(root().join("docs").join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|it| it == "md") && name != "commands.md" {
                pages.push(format!("docs/{folder}/{name}").replace("/./", "/"));
            }
        }
    }
    pages.sort();
    pages
}

/// Returns the blocks of a page, indented or fenced as `sh`, with continued lines joined.
pub fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let (mut block, mut fence) = (String::new(), None);
    for line in text.lines().chain([""]) {
        if let Some(language) = line.strip_prefix("```") {
            fence = if fence.is_none() { Some(language) } else { None };
            if !block.trim().is_empty() {
                blocks.push(std::mem::take(&mut block));
            }
            continue;
        }
        let code = match fence {
            Some("sh") => Some(line),
            Some(_) => None,
            None => line.strip_prefix("    "),
        };
        match code {
            Some(code) => {
                block.push_str(code);
                block.push('\n');
            }
            // An empty line within a block belongs to it.
            None if line.is_empty() && !block.is_empty() => block.push('\n'),
            None if !block.trim().is_empty() => blocks.push(std::mem::take(&mut block)),
            None => block.clear(),
        }
    }
    blocks.iter().map(|block| block.trim().replace("\\\n", " ") + "\n").collect()
}

/// Returns true if a block is a part of a configuration.
pub fn is_configuration(block: &str) -> bool {
    block.starts_with('[') && block.parse::<toml::Table>().is_ok()
}
