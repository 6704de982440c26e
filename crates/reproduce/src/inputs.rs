//! Inputs of the models: the shipped files, or the same with one figure changed.

use crate::error::ReproduceError;
use toml::Value;
use wattline_server::library::{Kind, text_of};
use wattline_server::receive::ReceivePath;
use wattline_server::{MeasuredCosts, ServerFile};

/// Name of the receive path in a change.
const RECEIVE: &str = "receive";

/// Inputs of a reproduction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inputs(Option<Change>);

/// One changed figure, written as `FILE: KEY = VALUE` or `FILE: KEY * FACTOR`. `FILE` is a shipped
/// file, or `receive` for the receive path; elements of a list are selected by their name.
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
    /// A text that is no change.
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
        let wrong = || ReproduceError::Model(format!("\"{text}\" is no change of an input"));
        Ok(Self(Some(parsed().ok_or_else(wrong)?)))
    }

    /// Returns true if nothing is changed.
    pub(crate) fn are_shipped(&self) -> bool {
        self.0.is_none()
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
        let Some(change) = self.0.as_ref().filter(|change| change.file == RECEIVE) else {
            return Ok(shipped);
        };
        let failed = |error: String| ReproduceError::Model(format!("receive path: {error}"));
        let mut value = Value::try_from(shipped).map_err(|error| failed(error.to_string()))?;
        change.apply(&mut value)?;
        value.try_into().map_err(|error| failed(error.to_string()))
    }

    /// Returns the text of a shipped file that is changed.
    fn text(&self, name: &str, kind: Kind) -> Result<Option<String>, ReproduceError> {
        let Some(change) = self.0.as_ref().filter(|change| change.file == name) else {
            return Ok(None);
        };
        let text = text_of(name, kind).ok_or_else(|| wrong_file(format!("no file {name}")))?;
        let mut value = Value::Table(toml::from_str(text).map_err(wrong_file)?);
        change.apply(&mut value)?;
        toml::to_string(&value).map(Some).map_err(wrong_file)
    }
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
        match figure {
            Value::Integer(old) => {
                let new = of(*old as f64);
                // A whole number stays one, as counts must be.
                *figure =
                    if new.fract() == 0.0 { Value::Integer(new as i64) } else { Value::Float(new) };
            }
            Value::Float(old) => *old = of(*old),
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
        let other = Inputs::changed("receive: ring = 512").unwrap();
        assert_eq!(
            other.receive_path().unwrap(),
            ReceivePath { ring: 512, ..ReceivePath::default() }
        );
        assert_eq!(other.server("westmere-2010").unwrap().model().unwrap(), shipped);
    }

    #[test]
    fn change_that_names_nothing_is_refused() {
        for text in ["", "receive: ring", "westmere-2010: ring = many"] {
            assert!(Inputs::changed(text).is_err(), "{text}");
        }
        let inputs = Inputs::changed("westmere-2010: power.none = 1").unwrap();
        let error = inputs.server("westmere-2010").unwrap_err().to_string();
        assert!(error.contains("power.none"), "{error}");
        assert!(Inputs::changed("receive: none = 1").unwrap().receive_path().is_err());
    }
}
