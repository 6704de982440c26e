//! Checks every few seconds: changes by others, CPUs and queues that go.

use super::kernel_time::{KernelShare, KernelTimes};
use super::layout::Layout;
use std::collections::BTreeSet;
use std::time::Duration;
use wattline_knobs::{Knobs, Setting};
use wattline_linux::sysfs::Tree;
use wattline_units::{Span, Time};

const PERIOD: Span = Span::from_millis(1000);
/// Longer period if the kernel serves the queues: faults stop no worker there, and a check costs as
/// much as several decisions.
const PERIOD_OF_KERNEL: Span = Span::from_millis(4000);

/// Periodic checks for trouble.
pub(super) struct Watch {
    due: Time,
    kernel: KernelTimes,
    /// The channels that each card had at the start.
    channels: Vec<(Setting, String)>,
    /// Reported problems that persist, so that each is reported once until it is over.
    reported: BTreeSet<String>,
    /// Settings whose drivers hung at the last check.
    stuck: Vec<Setting>,
    /// True if workers of this process serve the queues.
    workers: bool,
}

impl Watch {
    pub fn new(tree: &Tree, knobs: &impl Knobs, layout: &Layout, workers: bool) -> Self {
        let interfaces = layout.ports.iter().filter_map(|port| port.interface.clone());
        let channels = interfaces
            .map(|interface| Setting::Channels { interface })
            .filter_map(|setting| Some((setting.clone(), knobs.read(&setting).ok()?)))
            .collect();
        let mut kernel = KernelTimes::default();
        kernel.look(tree, &layout.cpus);
        Self {
            due: Time::ZERO + PERIOD,
            kernel,
            channels,
            reported: BTreeSet::new(),
            stuck: Vec::new(),
            workers,
        }
    }

    /// Returns true if the next check is due.
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = now >= self.due;
        if due {
            self.due = now + if self.workers { PERIOD } else { PERIOD_OF_KERNEL };
        }
        due
    }

    /// Returns the kernel's share of the CPUs since the last check.
    pub fn kernel(&mut self, tree: &Tree, cpus: &[u32]) -> Vec<KernelShare> {
        self.kernel.look(tree, cpus)
    }

    /// Returns new problems since the last check, and the settings that answer again; `others` are
    /// problems found elsewhere.
    pub fn troubles(
        &mut self,
        tree: &Tree,
        (knobs, layout): (&impl Knobs, &Layout),
        stuck: &[(Setting, Duration)],
        others: Vec<String>,
    ) -> Vec<String> {
        let mut now: BTreeSet<String> = others.into_iter().collect();
        now.extend(stuck.iter().map(|(setting, _)| {
            format!("{setting}: its driver hangs; it is left out until it answers")
        }));
        for (setting, found) in knobs.foreign() {
            now.insert(format!(
                "{setting}: another program has set it to {found:?}; the governor leaves it"
            ));
        }
        if let Ok(online) = tree.cpus("/sys/devices/system/cpu/online") {
            let gone = layout.cpus.iter().enumerate().filter(|(_, cpu)| !online.contains(cpu));
            for (worker, cpu) in gone {
                let subject = if self.workers {
                    format!(
                        "CPU {cpu} of worker {worker} is off-line: the worker shares another one, and its"
                    )
                } else {
                    format!("CPU {cpu} is off-line: its")
                };
                now.insert(format!("{subject} frequency and idle states cannot be set"));
            }
        }
        for (setting, before) in &self.channels {
            match knobs.read(setting) {
                Ok(found) if found == *before => {}
                Ok(found) => {
                    let then = if self.workers {
                        ": queues that no worker serves lose their packets; restart the router"
                    } else {
                        ""
                    };
                    now.insert(format!("{setting}: {before} at the start, {found} now{then}"));
                }
                Err(why) => {
                    now.insert(why.to_string());
                }
            }
        }
        let mut news: Vec<String> = now.difference(&self.reported).cloned().collect();
        self.reported = now;
        let hangs = |setting: &Setting| stuck.iter().any(|(other, _)| other == setting);
        let back = self.stuck.iter().filter(|setting| !hangs(setting));
        news.extend(back.map(|setting| format!("{setting}: its driver answers again")));
        self.stuck = stuck.iter().map(|(setting, _)| setting.clone()).collect();
        news
    }
}
