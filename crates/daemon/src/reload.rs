//! A daemon's report on a configuration that it has read again.

use std::fmt;
use wattline_status::{Contract, ReloadReport};

/// Result of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Settings now in force.
    pub applied: Vec<&'static str>,
    /// Settings that take effect only after a restart.
    pub needs_restart: Vec<&'static str>,
    /// Non-obvious reasons, one sentence each.
    pub because: Vec<String>,
    /// Settings in force that differ from the configuration, with reasons.
    pub not_as_configured: Vec<String>,
}

impl From<&Report> for ReloadReport {
    fn from(report: &Report) -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            contract: Contract::default(),
            applied: names(&report.applied),
            needs_restart: names(&report.needs_restart),
            because: report.because.clone(),
            not_as_configured: report.not_as_configured.clone(),
        }
    }
}

impl Report {
    /// Logs the result of the reload, as a warning if a part of it is not in force.
    pub fn log(&self) {
        match self.needs_restart.is_empty() {
            true => tracing::info!("configuration read again: {self}"),
            false => tracing::warn!("configuration read again: {self}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[&str]| {
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        };
        write!(out, "in force: {}; ", list(&self.applied))?;
        write!(out, "needs a restart: {}", list(&self.needs_restart))?;
        if !self.because.is_empty() {
            write!(out, " ({})", self.because.join("; "))?;
        }
        if !self.not_as_configured.is_empty() {
            write!(out, "; not as configured: {}", self.not_as_configured.join("; "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_a_sentence() {
        let mut report = Report::default();
        assert_eq!(report.to_string(), "in force: nothing; needs a restart: nothing");
        report.applied = vec!["[log] level", "[[route]]"];
        report.needs_restart = vec!["[power]"];
        report.because = vec!["its reason".to_owned()];
        report.not_as_configured = vec!["west: absent: its interface w0 is gone".to_owned()];
        assert_eq!(
            report.to_string(),
            "in force: [log] level, [[route]]; needs a restart: [power] (its reason); not as configured: west: \
             absent: its interface w0 is gone"
        );
    }
}
