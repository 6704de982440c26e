//! Values that are names or paths.

use std::path::PathBuf;

/// Longest path of a Unix socket, with room for the terminating zero (unix(7)).
const LONGEST_SOCKET_PATH: usize = 100;

/// Parses a name of letters, digits, `-`, `_` and `.`.
pub fn parse_name(text: &str) -> Option<String> {
    let legal = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!text.is_empty() && text.chars().all(legal)).then(|| text.to_owned())
}

/// Bytes of IFNAMSIZ and ALTIFNAMSIZ less the terminating zero.
const LONGEST_NAME: usize = 15;
const LONGEST_ALTERNATIVE_NAME: usize = 127;

/// Parses a name of an interface, with the rules of the kernel's dev_valid_name().
pub fn parse_interface(text: &str) -> Option<String> {
    interface_of(text, LONGEST_NAME)
}

/// Parses the name of an interface, or an alternative name (`ip link property add … altname`).
pub fn parse_any_interface(text: &str) -> Option<String> {
    interface_of(text, LONGEST_ALTERNATIVE_NAME)
}

fn interface_of(text: &str, longest: usize) -> Option<String> {
    let legal = |c: char| c != '/' && c != ':' && !c.is_whitespace();
    let named = (1..=longest).contains(&text.len()) && text != "." && text != "..";
    (named && text.chars().all(legal)).then(|| text.to_owned())
}

/// Parses the path of a Unix socket.
pub fn parse_socket_path(text: &str) -> Option<PathBuf> {
    (1..=LONGEST_SOCKET_PATH).contains(&text.len()).then(|| text.into())
}
