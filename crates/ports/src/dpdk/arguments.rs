//! Arguments of DPDK's environment.

use super::name::DeviceText;

/// The command line of the environment: what the user gave, and what follows from the devices and is
/// not given. `cpu` is one that this process may use.
#[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
pub(crate) fn arguments(given: &[String], devices: &[DeviceText], cpu: usize) -> Vec<String> {
    let has = |names: &[&str]| {
        given.iter().any(|it| {
            let name = it.split('=').next().unwrap_or_default();
            // Short options may have their value behind them.
            names.iter().any(|known| match known.starts_with("--") {
                true => name == *known,
                false => !it.starts_with("--") && it.starts_with(known),
            })
        })
    };
    let mut all = vec!["wattline".to_owned()];
    // Its own threads are none of ours: workers are the router's. One is the least.
    if !has(&["-l", "-c", "--lcores"]) {
        all.push(format!("--lcores=0@{cpu}"));
    }
    if !has(&["--file-prefix"]) {
        all.push(format!("--file-prefix=wattline-{}", std::process::id()));
    }
    // No other process is to share the devices, and nothing is to be left behind in the file system.
    if !has(&["--no-shconf"]) {
        all.push("--no-shconf".to_owned());
    }
    if !has(&["--no-huge", "--huge-unlink", "--in-memory"]) {
        all.push("--huge-unlink=always".to_owned());
    }
    if !has(&["--telemetry", "--no-telemetry"]) {
        all.push("--no-telemetry".to_owned());
    }
    let (cards, virtual_devices): (Vec<_>, Vec<_>) = devices.iter().partition(|it| it.is_pci());
    if cards.is_empty() && !has(&["-a", "--allow", "-b", "--block", "--no-pci"]) {
        all.push("--no-pci".to_owned());
    }
    all.extend(cards.iter().map(|card| format!("--allow={card}")));
    all.extend(virtual_devices.iter().map(|device| format!("--vdev={device}")));
    all.extend_from_slice(given);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[&str], devices: &[&str]) -> Vec<String> {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        let devices: Vec<_> = devices.iter().map(|text| DeviceText::parse(text).unwrap()).collect();
        arguments(&given, &devices, 3)
    }

    #[test]
    fn devices_become_arguments_and_only_the_cards_that_are_named_are_touched() {
        let all = of(&[], &["net_null0", "0000:03:00.0,a=b"]);
        let has = |text: &str| all.iter().any(|it| it == text);
        assert!(has("--lcores=0@3") && has("--vdev=net_null0") && has("--allow=0000:03:00.0,a=b"));
        assert!(!has("--no-pci") && has("--huge-unlink=always"));
        assert!(of(&[], &["net_null0"]).contains(&"--no-pci".to_owned()));
    }

    #[test]
    fn given_arguments_are_not_repeated() {
        let all = of(&["--no-huge", "-l", "1", "--file-prefix=x", "--telemetry"], &["net_null0"]);
        let of_prefix = |prefix: &str| all.iter().filter(|it| it.starts_with(prefix)).count();
        assert_eq!(of_prefix("--lcores") + of_prefix("--huge-unlink"), 0);
        assert_eq!((of_prefix("--file-prefix"), of_prefix("--no-telemetry")), (1, 0));
        assert_eq!(of(&["-l2"], &[]).iter().filter(|it| it.starts_with("--lcores")).count(), 0);
    }
}
