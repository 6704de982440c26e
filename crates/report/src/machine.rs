//! Machine and day of a run.

use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// Description of the machine, with the day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor from Linux; on virtual machines often only the vendor.
    pub processor: String,
    /// Number of online processors.
    pub processors: usize,
    /// True if the processor reports that it is virtual.
    pub is_virtual: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Day of the measurement (UTC), such as `2026-03-01`.
    pub date: String,
}

impl Machine {
    /// Describes this machine, today.
    pub fn here() -> Self {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().filter_map(|line| line.split_once(':'));
            let mut found = line.filter(|(key, _)| key.trim() == name).map(|(_, value)| value);
            found.next().map(|value| value.trim().to_owned()).unwrap_or_default()
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            processor: field("model name"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            is_virtual: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            date: date(now.as_secs() / 86_400),
        }
    }

    /// Returns a description in one line.
    pub fn text(&self) -> String {
        let kind = if self.is_virtual { "virtual machine" } else { "machine" };
        let Self { processor, processors, kernel, .. } = self;
        let plural = if *processors == 1 { "" } else { "s" };
        format!("{processor}, {kind} of {processors} processor{plural}, Linux {kernel}")
    }
}

/// Returns the Gregorian date of a day since 1970-01-01 (H. Hinnant, "chrono-compatible low-level
/// date algorithms", civil_from_days): years that begin in March have their leap day at the end.
fn date(day: u64) -> String {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (year + era * 400, month + 3),
        _ => (year + era * 400 + 1, month - 9),
    };
    format!("{year:04}-{month:02}-{of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_singular_and_plural() {
        let text = |processors: usize| {
            let processor = "P".to_owned();
            let (kernel, date) = ("6".to_owned(), "2026-11-27".to_owned());
            Machine { processor, processors, is_virtual: true, kernel, date }.text()
        };
        assert_eq!(text(1), "P, virtual machine of 1 processor, Linux 6");
        assert_eq!(text(2), "P, virtual machine of 2 processors, Linux 6");
    }

    #[test]
    fn days_are_converted_to_dates() {
        for (day, expected) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_723, "2024-01-01"),
            (20_513, "2026-03-01"),
        ] {
            assert_eq!(date(day), expected);
        }
        assert_eq!(Machine::here().date.len(), 10);
    }
}
