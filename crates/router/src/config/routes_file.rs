//! The file of routes: one prefix per line, followed by its target.

use super::settings::{Config, RouteSettings, RouteTarget, Via};
use super::words::{parse_kind, parse_via};
use ipnet::IpNet;
use std::net::IpAddr;
use std::path::Path;
use toml::de::DeValue;
use wattline_daemon::settings::{At, ConfigError, Key, Problem, Problems, Reader, Section, Table};
use wattline_fib::routes_file;

/// Most mistakes that are listed: a file with more is of another kind.
const MOST_PROBLEMS: usize = 100;
const ALLOWED: &str = "must be a prefix, followed by a neighbour's address, ADDRESS%PORT, blackhole, unreachable or prohibit";

/// The key with its path.
pub(super) const NAME: &str = "routes_file";

/// The key at the top level.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    Key::new(Section::Top, NAME, None, "\"routes.txt\"", "the path of a file, relative to this one",
        "More static routes: one prefix per line, followed by the address of the neighbour or by\nblackhole, unreachable or prohibit; # begins a comment. This key may be in any section."),
];

/// Reads `routes_file` in any section: such a line is commonly put at the end of the file, which in
/// TOML belongs to the last section.
pub(super) fn read_path(reader: &mut Reader, root: &Table) -> Option<At<String>> {
    let mut places = vec![root.clone()];
    for (_, value) in root.table {
        let here = |value: &toml::Spanned<DeValue<'_>>| value.span();
        match value.get_ref() {
            DeValue::Table(table) => {
                places.push(Table { section: Section::Top, table, span: here(value) });
            }
            DeValue::Array(items) => places.extend(items.iter().filter_map(|item| {
                let table = item.get_ref().as_table()?;
                Some(Table { section: Section::Top, table, span: here(item) })
            })),
            _ => {}
        }
    }
    let given: Vec<At<String>> =
        places.iter().filter_map(|place| reader.string(place, NAME)).collect();
    if let [_, second, ..] = given.as_slice() {
        let message = "is set twice: there is one file of routes".to_owned();
        reader.problem(Section::Top, NAME, &second.span, message);
    }
    given.into_iter().next()
}

/// Reads a file of routes for the ports of `config`.
///
/// # Errors
/// When it cannot be read, or with what is wrong in it.
pub fn load(path: &Path, config: &Config) -> Result<Vec<RouteSettings>, ConfigError> {
    let text = wattline_files::read_text(path, wattline_files::MOST_TEXT).map_err(|source| {
        let path = path.to_owned();
        ConfigError::Unreadable { named_by: "routes_file: ", path, source }
    })?;
    Ok(parse(&text, &path.display().to_string(), config)?)
}

/// Reads the text of such a file; `file` is its name in messages.
///
/// # Errors
/// With what is wrong in it, up to a hundred lines.
pub fn parse(text: &str, file: &str, config: &Config) -> Result<Vec<RouteSettings>, Problems> {
    each_line(text, file, |content| on_ports(read_line(content)?, config))
}

/// Returns the problems in the routes file of a configuration that is itself wrong; without
/// `config`, only problems that do not depend on its ports.
///
/// # Errors
/// When it cannot be read.
pub(super) fn check(path: &Path, config: Option<&Config>) -> std::io::Result<Option<Problems>> {
    let text = wattline_files::read_text(path, wattline_files::MOST_TEXT)?;
    let checked = each_line(&text, &path.display().to_string(), |content| {
        let line = read_line(content)?;
        config.map_or(Ok(()), |config| on_ports(line, config).map(drop))
    });
    Ok(checked.err())
}

/// Reads every line that is neither empty nor a comment. The error lists the problem of each bad
/// line.
fn each_line<'a, T>(
    text: &'a str,
    file: &str,
    read: impl Fn(&'a str) -> Result<T, String>,
) -> Result<Vec<T>, Problems> {
    let mut lines = Vec::new();
    let mut list = Vec::new();
    for (number, content) in routes_file::lines(text) {
        match read(content) {
            Ok(line) => lines.push(line),
            Err(message) => list.push(Problem {
                line: number,
                key: "route".to_owned(),
                value: content.chars().take(60).collect(),
                message,
            }),
        }
        if list.len() == MOST_PROBLEMS {
            break;
        }
    }
    if list.is_empty() {
        return Ok(lines);
    }
    Err(Problems { file: file.to_owned(), list, included: None })
}

/// Target of a prefix.
enum Target {
    Kind(RouteTarget),
    /// A neighbour, on the named port or on the port whose prefix contains it.
    Via(IpAddr, Option<String>),
}

fn read_line(content: &str) -> Result<(IpNet, Target), String> {
    let (prefix, mut words) = routes_file::prefix_of(content).map_err(|(_, reason)| reason)?;
    // `via` may be written as `ip route` prints it.
    let word = words.find(|word| *word != "via").ok_or_else(|| ALLOWED.to_owned())?;
    if let Some(extra) = words.next() {
        return Err(format!("has more than a prefix and a next hop: \"{extra}\""));
    }
    if let Some(target) = parse_kind(word) {
        return Ok((prefix, Target::Kind(target)));
    }
    let (gateway, port) = parse_via(word).ok_or_else(|| ALLOWED.to_owned())?;
    if gateway.is_ipv4() != prefix.addr().is_ipv4() {
        return Err("the next hop is of the other family than the prefix".to_owned());
    }
    Ok((prefix, Target::Via(gateway, port)))
}

fn on_ports((prefix, target): (IpNet, Target), config: &Config) -> Result<RouteSettings, String> {
    let target = match target {
        Target::Kind(target) => target,
        Target::Via(gateway, name) => {
            let port = match name {
                Some(name) => config.port_named(&name),
                None => config.port_of(gateway),
            };
            let port = port.ok_or("the next hop is on no known port: write ADDRESS%PORT")?;
            RouteTarget::Via(vec![Via { gateway, port }])
        }
    };
    Ok(RouteSettings { prefix, target })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text =
            "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\naddresses = [\"192.0.2.1/24\"]";
        Config::parse(text, "test").unwrap()
    }

    #[test]
    fn reads_prefixes_and_next_hops() {
        let text = "# comment\n10.0.0.0/8 192.0.2.2\n\n10.1.0.0/16 via 192.0.2.3 # x\n\
                    2001:db8::/32 fe80::1%a\n10.2.0.0/16 blackhole\n";
        let routes = parse(text, "routes", &config()).unwrap();
        assert_eq!(routes.len(), 4);
        let via = Via { gateway: "fe80::1".parse().unwrap(), port: 0 };
        assert_eq!(routes[2].target, RouteTarget::Via(vec![via]));
        assert_eq!(routes[3].target, RouteTarget::Blackhole);
    }

    #[test]
    fn any_text_is_read_or_refused_line_by_line() {
        const GOOD: &str = "10.0.0.0/8 192.0.2.2\n10.1.0.0/16 via 192.0.2.3%a # x\n\
                            2001:db8::/32 fe80::1%a\n10.2.0.0/16 blackhole\n0.0.0.0/0 192.0.2.9\n";
        let config = config();
        assert_eq!(parse(GOOD, "fuzz", &config).unwrap().len(), 5);
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let mut mutated = GOOD.as_bytes().to_vec();
            for pair in bytes.chunks_exact(2) {
                let at = usize::from(pair[0]) % mutated.len();
                mutated[at] = pair[1];
            }
            for bytes in [bytes, &mutated] {
                let text = String::from_utf8_lossy(bytes);
                let lines = text.lines().count();
                match parse(&text, "fuzz", &config) {
                    Ok(routes) => assert!(routes.len() <= lines),
                    Err(problems) => {
                        assert!(!problems.list.is_empty());
                        assert!(problems.list.iter().all(|it| (1..=lines).contains(&it.line)));
                    }
                }
            }
        });
    }

    #[test]
    fn reports_every_bad_line() {
        let text = "10.0.0.1/8 192.0.2.2\nnonsense\n10.0.0.0/8\n10.0.0.0/8 203.0.113.1\n\
                    10.0.0.0/8 fe80::1%a\n10.0.0.0/8 192.0.2.2%b\n10.0.0.0/8 192.0.2.2 7\n";
        let problems = parse(text, "routes", &config()).unwrap_err();
        let lines: Vec<usize> = problems.list.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7], "{problems}");
    }
}
