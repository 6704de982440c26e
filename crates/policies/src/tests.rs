//! Tests of the contract that need policies: their text form, a moderation given with them, and
//! their needs.

mod spec {
    use crate::POLICIES;
    use proptest::prelude::*;
    use wattline_policy::moderated::Choice;

    #[test]
    fn every_problem_is_reported_at_once() {
        let error = POLICIES.parse("queue-length:q_hi=3,q_l=x,c_up=1,c_up=2,batch").unwrap_err();
        let text = error.to_string();
        for part in
            ["did you mean \"q_h\"", "q_l = \"x\"", "c_up\" is set twice", "\"batch\" is not"]
        {
            assert!(text.contains(part), "{part} missing in {text}");
        }
    }

    #[test]
    fn a_mistyped_policy_is_suggested() {
        let text = POLICIES.parse("queue-lenght").unwrap_err().to_string();
        assert!(text.contains("did you mean \"queue-length\"?"), "{text}");
        let text = POLICIES.parse("powersave-govenor").unwrap_err().to_string();
        assert!(text.contains("did you mean \"powersave-governor\"?"), "{text}");
        let text = POLICIES.parse("xyzzy").unwrap_err().to_string();
        assert!(!text.contains("did you mean") && text.contains("ondemand"), "{text}");
    }

    #[test]
    fn preset_supplies_unset_values() {
        let of = |text: &str| POLICIES.parse(text).unwrap().parameters;
        let same = |text: &str, values: &str| {
            let (preset, written) = (of(text), of(values));
            for name in ["q_h", "q_l", "c_up", "c_down", "batch"] {
                assert_eq!(preset.count(name), written.count(name), "{text}: {name}");
            }
            assert_eq!(preset.word("read"), written.word("read"), "{text}");
        };
        same("queue-length:preset=efficient", "queue-length:c_up=7,c_down=10,read=after");
        same("queue-length:c_down=30,preset=efficient", "queue-length:c_up=7,c_down=30,read=after");
        same("queue-length:preset=latency", "queue-length");
        let text = POLICIES.parse("queue-length:preset=fast").unwrap_err().to_string();
        assert!(text.contains("must be latency or efficient"), "{text}");
    }

    #[test]
    fn a_moderation_follows_a_plus() {
        let spec = POLICIES.parse("ondemand+dim:sampling_rate=1ms").unwrap();
        assert_eq!(
            spec.moderation,
            Some(Choice::Driver(wattline_policy::moderation::RuleKind::Dim))
        );
        let text = POLICIES.parse("ondemand+din").unwrap_err().to_string();
        assert!(text.contains("moderation = \"din\"") && text.contains("ixgbe"), "{text}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}", name in "(powersave|queue-length|table|poll|ondemand[+]).{0,40}") {
            let _ = POLICIES.parse(&text);
            let _ = POLICIES.parse(&name);
        }
    }
}

mod moderated {
    use crate::testing::Bench;
    use wattline_policy::moderation::RuleKind;
    use wattline_units::Span;

    #[test]
    fn fixed_period_replaces_the_policys_own() {
        let mut bench = Bench::playing("ondemand+84us");
        assert!(bench.point.moderation.iter().all(|period| *period == Span::from_micros(84)));
        bench.pass(Span::from_millis(10), &[0.0], 0);
        assert_eq!(bench.rung(), (12, 0), "the governor governs on");
        let error = bench.refused("ondemand+2s");
        assert!(error.contains("the platform allows 0 us to 1000 us"), "{error}");
    }

    #[test]
    fn a_rule_of_the_driver_needs_a_driver() {
        let mut bench = Bench::new();
        let error = bench.refused("performance+dim");
        assert!(error.contains("+dim") && error.contains("only a simulated driver"), "{error}");
        bench.platform.can.driver_rules = true;
        let policy = bench.make("performance+dim", None).unwrap();
        assert_eq!(policy.driver_rule(0), Some(RuleKind::Dim));
    }
}

mod needs {
    use crate::POLICIES;
    use wattline_policy::{Asks, NeedsWorkers, Timing};

    #[test]
    fn policies_by_load_need_no_workers_and_those_by_batches_do() {
        for (text, needs) in [
            ("ondemand", None),
            ("conservative:sampling_rate=200ms", None),
            ("schedutil", None),
            ("performance", None),
            ("performance+84us", None),
            ("queue-length", Some(NeedsWorkers::Batches)),
            ("oracle", Some(NeedsWorkers::OfferedRate)),
            ("poll", Some(NeedsWorkers::Polling)),
            // Only the governor notices that the file does not exist.
            ("copi:tables=/nonexistent", None),
        ] {
            let spec = POLICIES.parse(text).unwrap();
            assert_eq!(NeedsWorkers::of_text(&spec, Asks::NOTHING), needs, "{text}");
        }
        let streaks = Asks { streaks: Timing::Exact, ..Asks::NOTHING };
        for (text, needs) in [("queue-length", None), ("poll", Some(NeedsWorkers::Polling))] {
            let spec = POLICIES.parse(text).unwrap();
            assert_eq!(NeedsWorkers::of_text(&spec, streaks), needs, "{text}");
        }
    }
}
