//! Agent that turns the knobs inside the guest: a [`Session`] driven by a list of requests. The
//! program is the same that runs the lab outside.

use std::fs;
use std::path::Path;
use std::str::FromStr;
use wattline_knobs::{
    Access, Change, Machine, STATE_DIRECTORY, Session, Setting, cpufreq, cpuidle, moderation,
    redirect,
};
use wattline_linux::sysfs::Tree;
use wattline_units::{Hertz, Span};

/// Environment variable with the path of the file of requests; if set, a program is the agent.
pub const REQUESTS: &str = "WATTLINE_RIG_REQUESTS";
/// Line that the agent prints once everything is set.
pub const READY: &str = "agent: ready";

/// A request, one line of the file.
#[derive(Debug, Clone, PartialEq)]
enum Request {
    /// `frequency POLICY GHZ`
    Frequency { policy: u32, hertz: Hertz },
    /// `governor POLICY NAME`
    Governor { policy: u32, governor: String },
    /// `idle CPU MICROSECONDS`: disables states with a longer exit latency.
    Idle { cpu: u32, longest: Span },
    /// `moderation INTERFACE MICROSECONDS`
    Moderation { interface: String, wait: Span },
    /// `redirect INTERFACE QUEUE`: all hash values to one queue.
    Redirect { interface: String, queue: u32 },
    /// `set SETTING VALUE`
    Set { setting: Setting, value: String },
}

impl FromStr for Request {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [setting, target, value] = words[..] else {
            return Err(format!("{line:?} is not a request: expected three words"));
        };
        let number = |text: &str| text.parse::<u32>().map_err(|e| format!("{line:?}: {e}"));
        let micros = |text: &str| Ok::<_, String>(Span::from_micros(u64::from(number(text)?)));
        Ok(match setting {
            "frequency" => {
                let gigahertz: f64 = value.parse().map_err(|e| format!("{line:?}: {e}"))?;
                Self::Frequency { policy: number(target)?, hertz: Hertz(gigahertz * 1e9) }
            }
            "governor" => Self::Governor { policy: number(target)?, governor: value.to_string() },
            "idle" => Self::Idle { cpu: number(target)?, longest: micros(value)? },
            "moderation" => {
                Self::Moderation { interface: target.to_string(), wait: micros(value)? }
            }
            "redirect" => Self::Redirect { interface: target.to_string(), queue: number(value)? },
            "set" => Self::Set {
                setting: target.parse().map_err(|e| format!("{line:?}: {e}"))?,
                value: value.to_string(),
            },
            _ => {
                return Err(format!(
                    "{line:?} begins with none of frequency, governor, idle, moderation, redirect, set"
                ));
            }
        })
    }
}

impl Request {
    /// Returns the writes that fulfil the request in the present state of the machine.
    fn changes(&self, machine: &Machine) -> Result<Vec<Change>, String> {
        let tree = machine.tree();
        let policy = |number| cpufreq::Policy::look(tree, number).map_err(|e| e.to_string());
        match self {
            Self::Frequency { policy: number, hertz } => {
                policy(*number)?.fix(*hertz).map_err(|e| e.to_string())
            }
            Self::Governor { policy: number, governor } => {
                policy(*number)?.govern(governor).map_err(|e| e.to_string())
            }
            Self::Idle { cpu, longest } => {
                let states = cpuidle::states(tree, *cpu).map_err(|e| e.to_string())?;
                Ok(cpuidle::limit(*cpu, &states, *longest))
            }
            Self::Moderation { interface, wait } => {
                let read = |setting: &Setting| machine.read(setting);
                moderation::receive(read, interface, None, *wait).map_err(|e| e.to_string())
            }
            Self::Redirect { interface, queue } => {
                let present = machine.read(&redirect::setting(interface));
                let entries = present.map_err(|e| e.to_string())?.split(',').count();
                let table = vec![*queue; entries];
                Ok(vec![redirect::set(interface, &table, "steer everything to one queue")])
            }
            Self::Set { setting, value } => Ok(vec![Change {
                setting: setting.clone(),
                value: value.clone(),
                why: "asked for".to_string(),
            }]),
        }
    }
}

/// Runs the agent if [`REQUESTS`] is set: fulfils the requests, prints [`READY`], and restores
/// everything on SIGTERM (by an orderly end) or SIGINT (by dropping the session). Returns false if
/// this program is not the agent.
///
/// # Errors
/// Fails when a request is malformed or cannot be fulfilled; settings are then restored.
pub fn serve() -> Result<bool, String> {
    let Some(path) = std::env::var_os(REQUESTS) else { return Ok(false) };
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let requests = text.lines().map(str::parse).collect::<Result<Vec<Request>, _>>()?;
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
    ])
    .map_err(|e| format!("watching for signals: {e}"))?;
    let tree = Tree::at("/");
    let state = Path::new(STATE_DIRECTORY);
    let (mut session, restored) =
        Session::begin(Machine::new(&tree), &tree, state).map_err(|e| e.to_string())?;
    println!("agent: restored after an earlier session: {}", restored.lines.len());
    for request in &requests {
        for change in request.changes(session.access())? {
            let outcome = session
                .set(&change.setting, &change.value)
                .map_err(|e| format!("{request:?}: {e}"))?;
            println!("agent: {} = {}: {outcome:?}", change.setting, change.value);
        }
    }
    println!("{READY}");
    match signals.forever().next() {
        Some(signal_hook::consts::SIGTERM) => {
            let report = session.finish();
            println!("agent: restored {}", report.lines.len());
        }
        _ => drop(session),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_and_malformed_ones_refused() {
        let request: Request = "frequency 1 2.4".parse().unwrap();
        assert_eq!(request, Request::Frequency { policy: 1, hertz: Hertz(2.4e9) });
        let request: Request = "set ethtool:eth0/rx-usecs 30".parse().unwrap();
        assert!(matches!(request, Request::Set { value, .. } if value == "30"));
        for line in ["", "frequency", "frequency x 1", "idle 0 -1", "set /etc/passwd x", "fly 0 1"]
        {
            assert!(line.parse::<Request>().is_err(), "{line:?}");
        }
    }
}
