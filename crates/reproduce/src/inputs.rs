//! Inputs of the models: the shipped files, possibly with one figure changed.

use crate::error::ReproduceError;
use crate::sets::Choice;
use toml::Value;
use wattline_policies::POLICIES;
use wattline_server::library::{Kind, text_of};
use wattline_server::{MeasuredCosts, RequestServer, ServerFile};
use wattline_study::receive::{ReceivePath, Streams};
use wattline_traffic::requests::{RequestSpec, Workload};
use wattline_units::Span;

/// Name of the receive path in a change.
const RECEIVE: &str = "receive";
/// Name of the arrivals of requests in a change, and of their only figure in use.
const REQUESTS: (&str, &str) = ("requests", "burst");
/// Mean length of bursts as a parameter of a search.
const BURST: &str = "requests.burst";
/// Controller whose rules can be switched off and whose counts can be changed.
const QUEUE_LENGTH: &str = "queue-length";
/// Name of PowerSave's day in a change, and of its only figure that is not printed.
const DAY: (&str, &str) = ("day", "bytes");
/// Name of the space of NAPI's costs in a change.
const NAPI: &str = "napi";
/// Prefetcher of the receive path; a change can only switch it off.
const STREAMS: &str = "streams";
/// Largest factor by which a change may move a constant, either way.
const LARGEST: f64 = 2.0;

/// Inputs of a reproduction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inputs {
    change: Option<Change>,
    /// Values of unprinted parameters in place of the shipped ones.
    choice: Choice,
    /// True if accepted sets and flips are searched again instead of read from their record.
    pub(crate) fresh: bool,
    /// True if runs are as short as a comparison of verdicts allows.
    pub(crate) brief: bool,
}

/// One changed figure, written as `FILE: KEY = VALUE` or `FILE: KEY * FACTOR`. `FILE` is a shipped
/// file, `receive` for the receive path, `requests` for the arrivals of requests, `napi` for the
/// space of NAPI's costs, or `queue-length` for the controller. Elements of a list are selected by
/// name.
///
/// A change moves a constant by a factor of at most two, or switches off its effect: a term of the
/// model by zero, batching by a count of one, a rule by its switch. Other changes are refused: an
/// absurd input changes nearly every check.
#[derive(Debug, Clone)]
struct Change {
    file: String,
    keys: Vec<String>,
    figure: Changed,
}

#[derive(Debug, Clone, Copy)]
enum Changed {
    To(f64),
    By(f64),
}

impl Inputs {
    /// Returns the shipped inputs with one change.
    ///
    /// # Errors
    /// A text that is not a change.
    pub(crate) fn changed(text: &str) -> Result<Self, ReproduceError> {
        let parsed = || {
            let (file, rest) = text.split_once(": ")?;
            let (key, figure) = if let Some((key, value)) = rest.split_once(" = ") {
                (key, Changed::To(value.parse().ok()?))
            } else {
                let (key, factor) = rest.split_once(" * ")?;
                (key, Changed::By(factor.parse().ok()?))
            };
            let keys = key.split('.').map(str::to_owned).collect();
            Some(Change { file: file.to_owned(), keys, figure })
        };
        let wrong = || ReproduceError::Model(format!("\"{text}\" is not a change of an input"));
        Ok(Self { change: Some(parsed().ok_or_else(wrong)?), ..Self::default() })
    }

    /// Returns the shipped inputs with other values of unprinted parameters.
    pub(crate) fn chosen(choice: Choice) -> Self {
        Self { choice, ..Self::default() }
    }

    /// Shortens the runs for a comparison of verdicts.
    pub(crate) fn briefly(self) -> Self {
        Self { brief: true, ..self }
    }

    /// Returns the shipped inputs, with a new search for accepted sets and flips.
    pub(crate) fn with_new_search() -> Self {
        Self { fresh: true, ..Self::default() }
    }

    /// Sets the chosen values of a server; [`Inputs::requests`] sets those of requests.
    pub(crate) fn choose(&self, server: &mut RequestServer) -> Result<(), ReproduceError> {
        self.choice
            .iter()
            .try_for_each(|(name, value)| replace(server, name, Some(*value)).map(|_| ()))
    }

    /// Returns a server's file.
    pub(crate) fn server(&self, name: &str) -> Result<ServerFile, ReproduceError> {
        match self.text(name, Kind::Servers)? {
            Some(text) => Ok(ServerFile::parse(name, &text).map_err(wrong_file)?),
            None => Ok(ServerFile::load(name)?),
        }
    }

    /// Returns measured costs of applications.
    pub(crate) fn costs(&self, name: &str) -> Result<MeasuredCosts, ReproduceError> {
        match self.text(name, Kind::Costs)? {
            Some(text) => Ok(MeasuredCosts::parse(name, &text).map_err(wrong_file)?),
            None => Ok(MeasuredCosts::load(name)?),
        }
    }

    /// Returns the receive path of the paper's server.
    pub(crate) fn receive_path(&self) -> Result<ReceivePath, ReproduceError> {
        let shipped = ReceivePath::default();
        let Some(change) = self.change.as_ref().filter(|change| change.file == RECEIVE) else {
            return Ok(shipped);
        };
        // A processor without the prefetcher: the receive path's form has no field for it.
        if change.keys == [STREAMS] && matches!(change.figure, Changed::To(0.0)) {
            return Ok(ReceivePath { streams: Streams::OFF, ..shipped });
        }
        let failed = |error: String| ReproduceError::Model(format!("receive path: {error}"));
        let mut value = Value::try_from(shipped).map_err(|error| failed(error.to_string()))?;
        change.apply(&mut value)?;
        value.try_into().map_err(|error| failed(error.to_string()))
    }

    /// Returns requests of a workload at a rate.
    pub(crate) fn requests(
        &self,
        workload: Workload,
        rate: f64,
    ) -> Result<RequestSpec, ReproduceError> {
        let mut shipped = RequestSpec::new(workload, rate);
        if let Some((_, burst)) = self.choice.iter().find(|(name, _)| *name == BURST) {
            shipped.burst = *burst;
        }
        let Some(change) = self.change.as_ref().filter(|change| change.file == REQUESTS.0) else {
            return Ok(shipped);
        };
        if change.keys != [REQUESTS.1] {
            return Err(wrong_file(format!("requests have no {}", change.keys.join("."))));
        }
        // A burst of one request is no burst.
        if matches!(change.figure, Changed::To(1.0)) {
            return Ok(RequestSpec { burst: 1.0, ..shipped });
        }
        let mut burst = Value::Float(shipped.burst);
        change.set(&mut burst)?;
        Ok(RequestSpec { burst: burst.as_float().unwrap_or(f64::NAN), ..shipped })
    }

    /// Returns the length in bytes of the packets of PowerSave's day.
    pub(crate) fn day_bytes(&self, shipped: u16) -> Result<u16, ReproduceError> {
        match self.change.as_ref().filter(|change| change.file == DAY.0) {
            None => Ok(shipped),
            Some(Change { keys, figure: Changed::By(factor), .. }) if keys == &[DAY.1] => {
                Ok((f64::from(shipped) * factor).round() as u16)
            }
            Some(_) => Err(wrong_file("a day accepts only bytes * FACTOR")),
        }
    }

    /// Returns the space of NAPI's costs; a change moves all values of a list.
    pub(crate) fn napi(&self, space: toml::Table) -> Result<Value, ReproduceError> {
        let mut space = Value::Table(space);
        if let Some(change) = self.change.as_ref().filter(|change| change.file == NAPI) {
            change.apply(&mut space)?;
        }
        Ok(space)
    }

    /// Returns the specification of a policy. With `climb = 0` PowerSave never adds capacity: its
    /// threshold exceeds every ring. A count changes by at least one, but not below 0.
    pub(crate) fn policy(&self, spec: &str) -> Result<String, ReproduceError> {
        let Some(change) = self.change.as_ref().filter(|change| change.file == QUEUE_LENGTH) else {
            return Ok(spec.to_owned());
        };
        let parameters = POLICIES.find(QUEUE_LENGTH).map_or(&[][..], |info| info.parameters);
        let key = change.keys.join(".");
        let shipped = parameters.iter().find(|known| known.name == key);
        let shipped = shipped.and_then(|known| known.default.parse::<f64>().ok());
        let set = match (change.figure, shipped) {
            (Changed::To(0.0), None) if key == "climb" => "q_h=1000000".to_owned(),
            (Changed::By(factor), Some(count)) => {
                let step = (count * (factor - 1.0)).abs().round().max(1.0);
                format!("{key}={}", (count + step.copysign(factor - 1.0)).max(0.0))
            }
            _ => {
                let known = "queue-length knows climb = 0, and * FACTOR of its counts";
                return Err(wrong_file(known));
            }
        };
        match spec.split_once(':') {
            _ if !spec.starts_with(QUEUE_LENGTH) => Ok(spec.to_owned()),
            Some((name, rest)) => Ok(format!("{name}:{set},{rest}")),
            None => Ok(format!("{spec}:{set}")),
        }
    }

    /// Returns the text of a shipped file that is changed.
    fn text(&self, name: &str, kind: Kind) -> Result<Option<String>, ReproduceError> {
        let Some(change) = self.change.as_ref().filter(|change| change.file == name) else {
            return Ok(None);
        };
        let text = text_of(name, kind).ok_or_else(|| wrong_file(format!("no file {name}")))?;
        let mut value = Value::Table(toml::from_str(text).map_err(wrong_file)?);
        change.apply(&mut value)?;
        toml::to_string(&value).map(Some).map_err(wrong_file)
    }
}

/// Replaces a parameter that a search varies, if a value is given. Returns the previous value.
pub(crate) fn replace(
    server: &mut RequestServer,
    name: &str,
    value: Option<f64>,
) -> Result<f64, ReproduceError> {
    let unknown = || ReproduceError::Model(format!("sets: no parameter {name}"));
    let place = match name {
        "requests.interrupt_cycles" => &mut server.kernel.interrupt_cycles,
        "requests.memcached.cycles_per_request" => {
            &mut server.services.get_mut("memcached").ok_or_else(unknown)?.cycles
        }
        "requests.outside_us" => {
            let before = server.kernel.outside.as_seconds() * 1e6;
            if let Some(micros) = value {
                server.kernel.outside = Span::from_seconds(micros / 1e6);
            }
            return Ok(before);
        }
        BURST => return Ok(RequestSpec::new(Workload::Memcached, 1.0).burst),
        _ => return Err(unknown()),
    };
    let before = *place;
    *place = value.unwrap_or(before);
    Ok(before)
}

fn wrong_file(error: impl std::fmt::Display) -> ReproduceError {
    ReproduceError::Model(format!("changed input: {error}"))
}

impl Change {
    fn apply(&self, root: &mut Value) -> Result<(), ReproduceError> {
        let mut at = root;
        for key in &self.keys {
            at = child(at, key).ok_or_else(|| {
                wrong_file(format!("{} has no {}", self.file, self.keys.join(".")))
            })?;
        }
        let figure = if at.get("value").is_some() {
            child(at, "value")
        } else if at.get("values").is_some() {
            child(at, "values")
        } else {
            Some(at)
        };
        figure.map_or_else(|| Err(wrong_file(self.keys.join("."))), |figure| self.set(figure))
    }

    fn set(&self, figure: &mut Value) -> Result<(), ReproduceError> {
        let of = |old: f64| match self.figure {
            Changed::To(new) => new,
            Changed::By(factor) => old * factor,
        };
        let moderate = |old: f64| {
            let new = of(old);
            let ratio = new / old;
            if new == 0.0 || (1.0 / LARGEST..=LARGEST).contains(&ratio) {
                return Ok(new);
            }
            let key = self.keys.join(".");
            Err(wrong_file(format!(
                "{key} from {old} to {new} is more than a factor of {LARGEST}; take a smaller one, \
                 or zero to switch it off"
            )))
        };
        match figure {
            Value::Integer(old) if of(*old as f64) == 1.0 => *figure = Value::Integer(1),
            Value::Integer(old) => {
                let new = moderate(*old as f64)?;
                // Counts must stay whole numbers. The receive path has only counts.
                let new = if self.file == RECEIVE { new.round() } else { new };
                *figure =
                    if new.fract() == 0.0 { Value::Integer(new as i64) } else { Value::Float(new) };
            }
            Value::Float(old) => *old = moderate(*old)?,
            Value::Boolean(old) => *old = of(f64::from(u8::from(*old))) != 0.0,
            Value::Array(all) => return all.iter_mut().try_for_each(|one| self.set(one)),
            _ => return Err(wrong_file(format!("{} is no figure", self.keys.join(".")))),
        }
        Ok(())
    }
}

/// Returns the value of a key, or the element of a list that has this name.
fn child<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    match value {
        Value::Table(table) => table.get_mut(key),
        Value::Array(all) => all
            .iter_mut()
            .find(|one| one.get("name").and_then(Value::as_str).is_some_and(|name| name == key)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_figure_changes_and_the_others_stay() {
        let inputs = Inputs::changed("westmere-2010: idle_state.C3.power_watts * 2").unwrap();
        let file = inputs.server("westmere-2010").unwrap();
        let (model, shipped) = (file.model().unwrap(), ServerFile::load("westmere-2010").unwrap());
        let shipped = shipped.model().unwrap();
        assert!(
            (model.idle_states[1].power.0 - 2.0 * shipped.idle_states[1].power.0).abs() < 1e-12
        );
        assert_eq!(model.idle_states[0], shipped.idle_states[0]);
        assert_eq!(inputs.receive_path().unwrap(), ReceivePath::default());
        let other = Inputs::changed("receive: ring * 0.5").unwrap();
        assert_eq!(
            other.receive_path().unwrap(),
            ReceivePath { ring: 512, ..ReceivePath::default() }
        );
        assert_eq!(other.server("westmere-2010").unwrap().model().unwrap(), shipped);
    }

    #[test]
    fn absurd_change_is_refused() {
        for (text, allowed) in [
            ("receive: ring * 2", true),
            ("receive: ring * 2.1", false),
            ("receive: ring * 0.4", false),
            ("receive: ring * -1", false),
            ("receive: batch = 1", true),
            ("receive: batch = 4", false),
            ("receive: pairs = 1", true),
            ("receive: streams = 0", true),
            ("receive: streams = 1", false),
        ] {
            let result = Inputs::changed(text).unwrap().receive_path();
            assert_eq!(result.is_ok(), allowed, "{text}: {result:?}");
        }
        for (text, allowed) in [
            ("westmere-2010: power.core_awake_watts = 0", true),
            ("westmere-2010: power.core_awake_watts * 0.02", false),
            ("westmere-2010: nic.pass_through_us = 10.4", true),
            ("westmere-2010: nic.pass_through_us = 14", false),
        ] {
            let result = Inputs::changed(text).unwrap().server("westmere-2010");
            assert_eq!(result.is_ok(), allowed, "{text}");
        }
    }

    #[test]
    fn requests_come_one_by_one_or_in_other_bursts() {
        let burst = |text: &str| {
            let inputs = Inputs::changed(text).unwrap();
            inputs.requests(Workload::Nginx, 1.0).map(|requests| requests.burst).ok()
        };
        let shipped = RequestSpec::new(Workload::Nginx, 1.0).burst;
        assert_eq!(burst("requests: burst = 1"), Some(1.0));
        assert_eq!(burst("requests: burst * 2"), Some(2.0 * shipped));
        assert_eq!(burst("receive: ring * 2"), Some(shipped));
        assert_eq!([burst("requests: burst * 3"), burst("requests: gap * 2")], [None, None]);
    }

    #[test]
    fn controller_that_never_climbs_replaces_only_queue_length() {
        let inputs = Inputs::changed("queue-length: climb = 0").unwrap();
        assert_eq!(inputs.policy("queue-length").unwrap(), "queue-length:q_h=1000000");
        assert_eq!(
            inputs.policy("queue-length:c_up=1").unwrap(),
            "queue-length:q_h=1000000,c_up=1"
        );
        assert_eq!(inputs.policy("napi").unwrap(), "napi");
        assert_eq!(Inputs::default().policy("queue-length").unwrap(), "queue-length");
        let other = Inputs::changed("queue-length: climb = 1").unwrap();
        assert!(other.policy("napi").is_err());
        let moved = |text: &str| Inputs::changed(text).unwrap().policy("queue-length").unwrap();
        assert_eq!(moved("queue-length: batch * 0.75"), "queue-length:batch=6");
        assert_eq!(moved("queue-length: c_up * 1.25"), "queue-length:c_up=1");
        assert_eq!(moved("queue-length: c_up * 0.75"), "queue-length:c_up=0");
    }

    #[test]
    fn change_without_a_target_is_refused() {
        for text in ["", "receive: ring", "westmere-2010: ring = many"] {
            assert!(Inputs::changed(text).is_err(), "{text}");
        }
        let inputs = Inputs::changed("westmere-2010: power.none = 1").unwrap();
        let error = inputs.server("westmere-2010").unwrap_err().to_string();
        assert!(error.contains("power.none"), "{error}");
        assert!(Inputs::changed("receive: none = 1").unwrap().receive_path().is_err());
    }
}
