//! Server files with errors: each error is reported with its line and the allowed values.

use proptest::prelude::*;
use wattline_server::{
    ComponentFile, FigureValue, Origin, ProblemKind, ServerFile, ServerModel, library,
};

fn westmere() -> &'static str {
    library::text_of("westmere-2010", library::Kind::Servers).unwrap()
}

/// Returns the messages for westmere's file with some of its text replaced.
fn messages(changes: &[(&str, &str)]) -> Vec<String> {
    let mut text = westmere().to_string();
    for (old, new) in changes {
        assert!(text.contains(old), "{old:?} is no longer in the file");
        text = text.replacen(old, new, 1);
    }
    let error = ServerFile::parse("my.toml", &text).expect_err("the file is wrong");
    error.to_string().lines().map(str::to_string).collect()
}

#[test]
fn one_mistake_one_message() {
    let cases = [
        ("sockets = 2", "sockets = -2", "processor.sockets = -2: must be 1 to 64"),
        ("sockets = 2", "sockets = 1.5", "processor.sockets = 1.5: must be a whole number"),
        ("sockets = 2", "sockets = nan", "processor.sockets = NaN: must be 1 to 64"),
        ("sockets = 2", "sockets = \"two\"", "= \"two\": must be a number, 1 to 64"),
        ("sockets = 2", "socket = 2", "processor.socket: unknown; did you mean `sockets`?"),
        ("ports = 4", "", "nic.ports: missing; give a number, 1 to 1024"),
        ("link_gbps = 10", "link_gbps = 1e9", "nic.link_gbps = 1000000000: must be 0.001 to 10000"),
        ("\"per-chip\"", "\"per-die\"", "must be one of per-core, per-cluster, per-chip"),
        ("2.533333, 2.666667", "2.666667, 2.533333", "must ascend, but 2.666667 is followed by"),
        ("exit_latency_us = 60", "exit_latency_us = 600", "C6 is deeper than C3 but left faster"),
        ("value = 0.4166666667", "value = 4.2", "C3 is deeper than C1 but draws more power"),
        ("power_watts = 0\n", "power_watts = 0.1\n", "whose power is part of [power.base]; give 0"),
        ("_entries = 128", "_entries = 100", "100 is not a power of two"),
        ("_entries = 128", "_entries = 8", "of 8 entries cannot reach 12 queues"),
        ("[power.base]", "[power.bases]", "power.base: missing; give a section [power.base]"),
        ("origin = \"fitted\"", "origin = \"guess\"", "must be one of user, published, derived"),
        ("name = \"westmere-2010\"", "name = \"\"", "must be a text that is not empty"),
        ("[capacity]", "[capacity", "my.toml:"),
    ];
    for (old, new, expected) in cases {
        let found = messages(&[(old, new)]);
        assert!(found.iter().any(|line| line.contains(expected)), "{expected:?} not in {found:#?}");
        assert!(found.iter().all(|line| line.starts_with("my.toml:")), "{found:#?}");
    }
}

#[test]
fn all_mistakes_at_once_in_the_order_of_their_lines() {
    let found = messages(&[
        ("board_watts = 24", "board_watts = -24"),
        ("sockets = 2", "sockets = 0"),
        ("fixed_us = { value = 1.80", "fixed_uss = { value = 1.80"),
    ]);
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found[0].contains("processor.sockets = 0: must be 1 to 64"));
    assert!(found[1].contains("wake_up.fixed_us: missing"));
    assert!(found[2].contains("wake_up.fixed_uss: unknown; did you mean `fixed_us`?"));
    assert!(found[3].contains("power.base.board_watts = -24: must be 0 to 100000"));
    let line = |message: &str| message.split(':').nth(1).unwrap().parse::<usize>().unwrap();
    let at = westmere().lines().position(|text| text == "sockets = 2").unwrap() + 1;
    assert_eq!(line(&found[0]), at);
}

#[test]
fn syntax_errors_are_named_without_guesses_at_the_rest() {
    let found = messages(&[("sockets = 2", "sockets = = 2"), ("[capacity]", "[capacity")]);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].contains("extra `=`") && found[1].contains("unclosed table"), "{found:#?}");
}

#[test]
fn core_with_more_idle_than_active_power_is_a_contradiction() {
    let found = messages(&[
        ("core_awake_watts = { value = 1.17", "core_awake_watts = { value = 0"),
        ("watts_per_ghz = { value = 3.267", "watts_per_ghz = { value = 0.1"),
    ]);
    assert!(found[0].contains("C1 draws 1.5 W, more than an awake core at 1.6 GHz"), "{found:#?}");
}

#[test]
fn file_with_more_cores_than_can_forward_is_refused() {
    let with = |cores: &str, queues: &str| {
        messages(&[
            ("cores_per_socket = 6", &format!("cores_per_socket = {cores}")),
            ("queues_per_port = { value = 12", &format!("queues_per_port = {{ value = {queues}")),
            ("redirect_table_entries = 128", "redirect_table_entries = 1024"),
        ])
    };
    let found = with("96", "192");
    assert!(found[0].contains("192 cores have a receive queue, and at most 128"), "{found:#?}");
    assert!(found[0].contains("set nic.queues_per_port = 128"), "{found:#?}");
}

#[test]
fn figures_keep_their_origin() {
    let file = ServerFile::load("westmere-2010").unwrap();
    let origin = |field: &str| {
        file.figures.iter().find(|figure| figure.field == field).map(|figure| figure.origin)
    };
    assert_eq!(origin("processor.sockets"), Some(Origin::Published));
    assert_eq!(origin("power.core_awake_watts"), Some(Origin::Fitted));
    assert_eq!(origin("idle_state[0].power_watts"), Some(Origin::Derived));
    assert_eq!(origin("application.re.cycles_per_byte"), Some(Origin::Assumed));
}

#[test]
fn models_with_missing_figures_name_them() {
    for name in library::names(library::Kind::Servers).filter(|name| name.starts_with("bolla-")) {
        let error = ServerModel::load(name).unwrap_err().to_string();
        assert!(error.contains("cannot be used for simulation"), "{error}");
        assert!(error.contains("\n  [power]: absent; needs core_awake_watts"), "{error}");
        assert!(error.contains("\n  processor.frequencies_ghz: only the highest"), "{error}");
        let error = ServerFile::load(name).unwrap().bolla().unwrap_err().to_string();
        assert!(error.contains("\n  bolla.max_rate_pps: "), "{error}");
        assert!(error.contains("cannot be used for Bolla's equations"), "{error}");
    }
    let error = ServerModel::load("xeon-silver-4108").unwrap_err().to_string();
    assert!(error.contains("\n  power.core_awake_watts: package energy"), "{error}");
    let file = ServerFile::load("xeon-silver-4108").unwrap();
    assert_eq!(file.processor.unwrap().frequencies.len(), 11);
    let missing = file.figures.iter().filter(|f| matches!(f.value, FigureValue::Missing(_)));
    assert_eq!(missing.count(), 14);
}

#[test]
fn component_files_are_checked_too() {
    let cards = library::text_of("sohan-2010-nics", library::Kind::Components).unwrap();
    let text = cards
        .replacen("active_watts = { value = 14.0", "active_watts = { value = 1.4", 1)
        .replacen("throughput_gbps = { value = 1.7", "throughput_gbps = { value = 17", 1);
    let error = ComponentFile::parse("cards.toml", &text).unwrap_err();
    let contradictions: Vec<&str> =
        error.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(contradictions, ["card[3].active_watts", "card[6].throughput_gbps"]);
    assert!(matches!(error.problems[0].kind, ProblemKind::Contradiction(_)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any text is read or refused with a message.
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        if let Err(error) = ServerFile::parse("any", &text) {
            prop_assert!(!error.problems.is_empty());
        }
    }

    /// A good file with a part cut or doubled never causes a panic, nor an error without a message.
    #[test]
    fn no_damage_makes_the_reader_panic(at in 0usize..5000, length in 0usize..400, twice: bool) {
        let bytes = westmere().as_bytes();
        let at = at.min(bytes.len());
        let end = (at + length).min(bytes.len());
        let middle = if twice { bytes[at..end].repeat(2) } else { Vec::new() };
        let damaged = [&bytes[..at], &middle, &bytes[end..]].concat();
        if let Err(error) = ServerFile::parse("any", &String::from_utf8_lossy(&damaged)) {
            prop_assert!(!error.problems.is_empty());
        }
    }
}
