//! `[dpdk]`, and what ports over DPDK do not go with.

use super::power::{PowerPlatform, PowerSettings};
use super::router::{Mode, RouterSettings};
use super::settings::PortSettings;
use toml::de::DeValue;
use wattline_daemon::settings::{Key, Reader, Section, Table};

/// The section.
pub(super) const SECTION: Section = Section::Named("[dpdk]");

/// Keys of the section, in the order of the reference.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    Key::new(SECTION, "arguments", Some("[]"), "[\"--no-huge\", \"-m\", \"256\"]", "a list of arguments of DPDK's environment (EAL)",
        "What DPDK is started with, where a port has `dpdk`. Its devices, `--no-pci` where none is a card,\n`--lcores`, `--file-prefix`, `--no-shconf`, `--huge-unlink` and `--no-telemetry` are added unless they are given.\nWithout huge pages it needs `--no-huge` and `-m` MEGABYTES."),
];

/// The arguments of the environment.
pub(super) fn read(reader: &mut Reader, table: &Table) -> Vec<String> {
    reader.refuse_unknown(table);
    // Neither empty nor with what ends a C string.
    let argument = |value: &DeValue| {
        value.as_str().filter(|text| !text.is_empty() && !text.contains('\0')).map(str::to_owned)
    };
    let list = reader.list::<String>(table, "arguments", false, argument);
    list.into_iter().flat_map(|list| list.value).map(|argument| argument.value).collect()
}

/// Says where a configuration with ports over DPDK asks for what these cannot do. The settings come with
/// the tables that they stand in.
pub(super) fn check(
    reader: &mut Reader,
    (ports, root): (&[PortSettings], &Table),
    (router, of_router): (&RouterSettings, &Table),
    (power, of_power): (&PowerSettings, &Table),
) {
    if ports.iter().any(|port| port.kind.taken_over().is_some_and(|name| !name.is_empty())) {
        let message = "ports over DPDK and interfaces through AF_XDP cannot be in one router: give \
                       every interface a `dpdk` device, or none";
        problem(reader, root, "port", message);
    }
    if router.mode != Mode::Poll {
        let message = "must be \"poll\" where a port has `dpdk`: nothing wakes a worker when frames \
                       arrive there";
        problem(reader, of_router, "mode", message);
    }
    if power.platform != PowerPlatform::None {
        let message = "must be \"none\" where a port has `dpdk`: its workers poll all the time, and its \
                       queues have no knobs";
        problem(reader, of_power, "platform", message);
    }
}

/// Notes it where the key stands, or where it is missing.
fn problem(reader: &mut Reader, table: &Table, key: &str, message: &str) {
    match table.span_of(key) {
        Some(span) => reader.problem(table.section, key, &span, message.to_owned()),
        None => reader.problem_in(table, key, message.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, PortKind};

    const PORT: &str = "[[port]]\nname = \"a\"\ndpdk = \"net_null0,size=60\"\n";

    fn problems(text: &str) -> Vec<String> {
        let problems = Config::parse(text, "x").unwrap_err();
        problems.list.iter().map(|it| format!("{} {}: {}", it.line, it.key, it.message)).collect()
    }

    #[test]
    fn a_device_is_read_with_its_interface_and_the_arguments_of_all() {
        let text = format!(
            "[router]\nmode = \"poll\"\n[dpdk]\narguments = [\"--no-huge\", \"-m\", \"64\"]\n\
             {PORT}[[port]]\nname = \"b\"\ndpdk = \"0000:03:00.1\"\ninterface = \"wan1\"\n"
        );
        let config = Config::parse(&text, "x").unwrap();
        assert_eq!(config.dpdk_arguments, ["--no-huge", "-m", "64"]);
        let of = |place: usize| match &config.ports[place].kind {
            PortKind::Dpdk { device, interface } => (device.as_str(), interface.as_deref()),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(0), ("net_null0,size=60", None));
        assert_eq!(of(1), ("0000:03:00.1", Some("wan1")));
        assert_eq!((config.ports[0].mtu, config.ports[1].mtu), (Some(1500), None));
        assert!(config.router.kernel_routes && !config.captures_only());
    }

    #[test]
    fn settings_incompatible_with_dpdk_are_rejected_in_place() {
        let poll = "[router]\nmode = \"poll\"\n";
        assert!(Config::parse(&format!("{poll}{PORT}"), "x").is_ok());
        for (text, what) in [
            (PORT.to_owned(), "[router] mode: must be \"poll\""),
            (format!("[router]\nmode = \"adaptive\"\n{PORT}"), "2 [router] mode: must be \"poll\""),
            (
                format!("{poll}[power]\nplatform = \"host\"\n{PORT}"),
                "4 [power] platform: must be \"none\"",
            ),
            (
                format!("{poll}{PORT}[[port]]\nname = \"b\"\ninterface = \"x\"\n"),
                "cannot be in one router",
            ),
            (
                format!("{poll}{PORT}{}", PORT.replace("\"a\"", "\"b\"")),
                "another port has this device already",
            ),
            (format!("{poll}{PORT}capture = {{ read = \"x\" }}\n"), "needs either"),
            (
                format!("{poll}{PORT}interface = \"x\"\nmac = \"02:00:00:00:00:01\"\n"),
                "leave this out",
            ),
            (
                format!("{poll}{}", PORT.replace("net_null0", "--net_null0")),
                "the PCI address of a card",
            ),
            (format!("[dpdk]\narguments = [\"\"]\n{poll}{PORT}"), "2 [dpdk] arguments"),
        ] {
            let found = problems(&text);
            assert!(found.iter().any(|it| it.contains(what)), "{text}\n{found:#?}");
            assert_eq!(found.len(), 1, "{text}\n{found:#?}");
        }
    }
}
