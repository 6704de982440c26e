//! Reading the configuration again while traffic flows.

mod port_changes;

use super::Router;
use super::port::Port;
use super::takeover::ForwardPathMonitor;
use crate::application::Application;
use crate::config::{Config, RouterSettings, routes_file};
use crate::error::RouterError;
use port_changes::PortChanges;
use wattline_daemon::reload::Report;

impl Router {
    /// Reads the file again and applies all differences that do not need a restart.
    ///
    /// # Errors
    /// With all problems; nothing is changed then.
    pub(super) fn reload(&mut self) -> Result<Report, RouterError> {
        let mut new = Config::load_beside(
            &self.configured.path,
            &self.configured.sections,
            self.configured.config.power.policies,
            &self.configured.config.ports,
        )?;
        new.notes.iter().for_each(|note| tracing::warn!("{note}"));
        self.surplus.iter().for_each(|surplus| surplus.leave_out(&mut new));
        let extra = match &new.routes_file {
            Some(path) => routes_file::load(path, &new)?,
            None => Vec::new(),
        };
        let ports =
            PortChanges::between(&self.configured.config, &new, self.keeps_ports(&new).as_deref());
        let mut report =
            compare(&self.configured.config, &new, &ports, self.configured.extra_routes != extra);
        let ports_apply = ports.fixed.is_empty();
        // All steps that can fail come first.
        if ports_apply {
            self.open_ports(&new, &ports.added)
                .map_err(|wrong| RouterError::Unfit(wrong.join("\n")))?;
        }
        self.configured.config.log_level = new.log_level;
        (self.configured.set_log_level)(new.log_level);
        let other_takeover = follow(&mut self.configured.config.router, &new.router);
        if other_takeover {
            self.monitor.iter_mut().for_each(ForwardPathMonitor::log_again);
        }
        self.leave_workers();
        // Routes refer to ports by index: with other ports they would point to the wrong one.
        if ports_apply {
            if ports.any() {
                self.applications.iter_mut().for_each(|it| it.follow_ports(&new));
            }
            reload_applications(
                &mut self.applications,
                &mut self.configured.config,
                &new,
                &mut report,
            );
            self.configured.config.routes = new.routes;
            self.configured.config.neighbours = new.neighbours;
            self.configured.config.routes_file = new.routes_file;
            self.configured.extra_routes = extra;
            if ports.any() {
                self.pause_governor();
            }
            self.configured.config.ports = new.ports;
            self.begin_ports(&ports.added);
            self.retire_ports(&ports.removed);
            self.configured.apply_statics(&mut self.rib, &self.ports.links);
            if ports.any() {
                self.commit();
                self.close_ports(&ports.removed);
                self.await_ports();
                self.commit();
                self.resume_governor();
            }
        }
        if other_takeover {
            // The report shows the new state of ports.
            self.check_forward_path();
            self.await_ports();
        }
        self.update_egress_ports();
        let of_applications = self.applications.iter().flat_map(|it| it.complaints());
        report.not_as_configured =
            self.ports.list.iter().filter_map(Port::complaint).chain(of_applications).collect();
        self.report_governor(&mut report);
        self.configured.identity.running.reload(&new.text, &report.needs_restart);
        Ok(report)
    }
}

/// Takes over the router's own settings that can change while it runs. Returns true if `takeover`
/// has changed.
fn follow(settings: &mut RouterSettings, new: &RouterSettings) -> bool {
    let other_takeover = settings.takeover != new.takeover;
    settings.mode = new.mode;
    settings.batch = new.batch;
    settings.idle = new.idle;
    settings.drain = new.drain;
    settings.takeover = new.takeover;
    other_takeover
}

/// Lets applications apply settings that can change while packets flow.
fn reload_applications(
    applications: &mut [Box<dyn Application>],
    config: &mut Config,
    new: &Config,
    report: &mut Report,
) {
    for application in applications {
        let Some(heading) = application.reload(new) else { continue };
        let settings = new.applications.iter().find(|it| it.heading() == heading).cloned();
        let known = config.applications.iter_mut().find(|it| it.heading() == heading);
        if let (Some(known), Some(settings)) = (known, settings) {
            *known = settings;
        }
        if report.needs_restart.contains(&heading) {
            report.needs_restart.retain(|it| *it != heading);
            report.applied.push(heading);
        }
    }
}

/// Sorts the differences, also of the routes file, into applicable ones and those that need a
/// restart.
fn compare(old: &Config, new: &Config, ports: &PortChanges, file_differs: bool) -> Report {
    let mut report = Report::default();
    let mut live = |name, differs: bool| {
        if differs {
            report.applied.push(name);
        }
    };
    let mut restart = |name, differs: bool| {
        if differs {
            report.needs_restart.push(name);
        }
    };
    let (before, after) = (&old.router, &new.router);
    live("[log] level", old.log_level != new.log_level);
    live("[router] mode", before.mode != after.mode);
    live("[router] batch", before.batch != after.batch);
    live("[router] idle", before.idle != after.idle);
    live("[router] drain", before.drain != after.drain);
    live("[router] takeover", before.takeover != after.takeover);
    let same_ports = ports.fixed.is_empty();
    live("[[port]]", same_ports && ports.any());
    let addresses = |config: &Config| {
        config.ports.iter().map(|port| port.addresses.clone()).collect::<Vec<_>>()
    };
    live("[[port]] addresses", same_ports && !ports.any() && addresses(old) != addresses(new));
    restart("[[port]]", !same_ports);
    // They refer to ports by index, and apply only with them.
    for (name, differs) in [
        ("[[route]]", old.routes != new.routes),
        ("[[neighbour]]", old.neighbours != new.neighbours),
        ("routes_file", file_differs),
    ] {
        live(name, same_ports && differs);
        restart(name, !same_ports && differs);
    }
    restart("[power]", old.power != new.power);
    restart("[router] workers", before.workers != after.workers);
    restart("[router] cpus", before.cpus != after.cpus);
    restart("[router] busy_poll", before.busy_poll != after.busy_poll);
    restart("[router] xdp_forward", before.xdp_forward != after.xdp_forward);
    restart("[router] flow_seed", before.flow_seed != after.flow_seed);
    restart("[router] kernel_routes", before.kernel_routes != after.kernel_routes);
    restart("[router] frames", before.frames != after.frames);
    restart("[router] spare_ports", before.spare_ports != after.spare_ports);
    restart("[router] socket", before.socket != after.socket);
    restart("[metrics] listen", old.metrics != new.metrics);
    let said_by = |config: &Config, heading: &str| {
        config.applications.iter().find(|settings| settings.heading() == heading).cloned()
    };
    let gone = old.applications.iter().filter(|it| said_by(new, it.heading()).is_none());
    for heading in new.applications.iter().chain(gone).map(|settings| settings.heading()) {
        restart(heading, said_by(old, heading) != said_by(new, heading));
    }
    report.because.clone_from(&ports.fixed);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "[router]\nworkers = 1\nmode = \"poll\"\n[[port]]\nname = \"a\"\n\
        capture = { read = \"x\" }\naddresses = [\"192.0.2.1/24\"]\n\
        [[route]]\nprefix = \"10.0.0.0/8\"\nvia = \"192.0.2.2\"\n";

    fn report(old: &Config, new: &Config, file_differs: bool) -> Report {
        compare(old, new, &PortChanges::between(old, new, None), file_differs)
    }

    fn changed(from: &str, to: &str) -> Report {
        assert!(BEFORE.contains(from));
        let parse = |text: &str| Config::parse(text, "test").unwrap();
        report(&parse(BEFORE), &parse(&BEFORE.replace(from, to)), false)
    }

    #[test]
    fn routes_are_in_force_only_if_their_ports_are() {
        let before = Config::parse(BEFORE, "test").unwrap();
        assert_eq!(report(&before, &before, true).applied, ["routes_file"]);
        let both = BEFORE.replace("\"x\"", "\"y\"").replace("10.0.0.0", "11.0.0.0");
        let report = report(&before, &Config::parse(&both, "test").unwrap(), true);
        assert_eq!(report.needs_restart, ["[[port]]", "[[route]]", "routes_file"]);
        assert!(report.applied.is_empty());
    }

    #[test]
    fn every_difference_is_either_applied_or_needs_a_restart() {
        assert_eq!(changed("poll", "poll"), Report::default());
        assert_eq!(changed("poll", "interrupt").applied, ["[router] mode"]);
        let takeover = changed("[router]", "[router]\ntakeover = \"force\"");
        assert_eq!(takeover.applied, ["[router] takeover"]);
        assert_eq!(changed("192.0.2.2", "192.0.2.3").applied, ["[[route]]"]);
        assert_eq!(changed("192.0.2.1", "192.0.2.9").applied, ["[[port]] addresses"]);
        assert_eq!(changed("workers = 1", "workers = 2").needs_restart, ["[router] workers"]);
        assert_eq!(changed("[router]", "[power]\nseed = 2\n[router]").needs_restart, ["[power]"]);
        let port = changed("[[port]]", "[[port]]\nmtu = 1400");
        assert_eq!((port.needs_restart, port.applied), (vec!["[[port]]"], vec![]));
        assert!(port.because[0].contains("mtu"), "{:?}", port.because);
        let spare = changed("[router]", "[router]\nspare_ports = 0");
        assert_eq!(spare.needs_restart, ["[router] spare_ports"]);
    }
}
