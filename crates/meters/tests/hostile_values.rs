//! Sensors with values that no driver writes: every figure is finite and not negative, or there is
//! none.

mod common;

use common::Fixture;
use std::fs;
use wattline_meters::survey;
use wattline_units::{Span, Time};

#[test]
fn every_sensor_may_show_anything() {
    let huge = "9".repeat(1 << 20);
    let values: [&[u8]; 12] = [
        b"",
        b"\n",
        b"-1",
        b"0",
        b"18446744073709551615",
        b"9223372036854775807",
        b"99999999999999999999999999",
        b"1e308",
        b"NaN",
        b"inf",
        b"\xff\xfe",
        huge.as_bytes(),
    ];
    let at = |seconds: f64| Time::ZERO + Span::from_seconds(seconds);
    for machine in ["acpi-power-meter", "amd", "intel-client-psys", "intel-two-dies", "residencies"]
    {
        let fixture = Fixture::copy(machine);
        let all = fixture.files();
        for file in &all {
            let before = fs::read(file).unwrap();
            for value in values {
                // Found before and after the value changes.
                let mut meters = survey(&fixture.tree).meters;
                meters.iter_mut().for_each(|meter| drop(meter.read(at(1.0))));
                fs::write(file, value).unwrap();
                let mut others = survey(&fixture.tree).meters;
                for (second, seconds) in [2.0, 2.0, 3.0].into_iter().enumerate() {
                    for meter in meters.iter_mut().chain(&mut others) {
                        let Ok(reading) = meter.read(at(seconds)) else { continue };
                        let id = &meter.description().id;
                        let power = reading.power.get();
                        assert!(power.is_finite() && power >= 0.0, "{id}: {power} ({second})");
                        assert!(reading.energy.is_none_or(|it| it.get().is_finite()), "{id}");
                    }
                }
                fs::write(file, &before).unwrap();
            }
        }
    }
}
