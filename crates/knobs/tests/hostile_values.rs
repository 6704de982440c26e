//! Attributes with values that no driver writes: knobs are found or missing, and nothing panics,
//! blocks or needs much time.

mod common;

use common::Fixture;
use std::fs;
use std::time::{Duration, Instant};

fn values() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> =
        ["", " \n", "-1", "0", "18446744073709551615", "1e308", "NaN", "a\0b"]
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect();
    values.push(b"99999999999999999999999999".to_vec());
    values.push(b"0-4294967295".to_vec());
    values.push(b"\xff\xfe\x80".to_vec());
    values.push("0-8191,".repeat(149_000).into_bytes());
    values.push("7 ".repeat(500_000).into_bytes());
    values.push(vec![b'9'; 2 << 20]);
    values
}

#[test]
fn every_attribute_may_hold_anything() {
    for machine in ["acpi-cpufreq", "amd-pstate-epp", "cppc", "intel-pstate-hwp"] {
        let fixture = Fixture::copy(machine);
        let all = fixture.files();
        let probe = || wattline_knobs::probe(&fixture.tree, &["eth9".to_owned()]);
        let values = values();
        let begun = Instant::now();
        // Each file in turn with another value, and then all with the same.
        for (place, file) in all.iter().enumerate() {
            let before = fs::read(file).unwrap();
            fs::write(file, &values[place % values.len()]).unwrap();
            drop(probe());
            fs::write(file, before).unwrap();
        }
        for value in &values {
            all.iter().for_each(|file| fs::write(file, value).unwrap());
            drop(probe());
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{machine}: {:?}", begun.elapsed());
    }
}
