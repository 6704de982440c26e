//! Final section of a benchmark's page.

use crate::calibration::Calibration;
use crate::machine::Machine;
use wattline_report::FigurePage;

/// Ends a page with the conditions of the measurement and the machine.
pub fn end(
    mut page: FigurePage,
    how: &[(&str, String)],
    calibration: Option<&Calibration>,
) -> FigurePage {
    page.heading("Conditions of the measurement");
    let speed = calibration.map(|calibration| {
        let text = if calibration.disturbed {
            "changed meanwhile: repeat for firm figures"
        } else {
            "the same before and after"
        };
        ("speed of the machine", text.to_owned())
    });
    let machine = ("machine", Machine::here().text());
    let version = ("version", wattline_units::Build::default().to_string());
    page.values(how.iter().cloned().chain(speed).chain([machine, version]));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_ends_with_its_conditions() {
        let page = FigurePage::begin("figure", "one");
        let disturbed = Calibration { before_cycles: 1.0, after_cycles: 2.0, disturbed: true };
        let page = end(page, &[("runs", "<3>".to_owned())], Some(&disturbed)).end();
        assert!(page.contains("repeat for firm figures") && page.contains("&lt;3&gt;"), "{page}");
        crate::looked_at("figure", &page);
    }
}
