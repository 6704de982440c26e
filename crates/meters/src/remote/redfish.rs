//! Watts from a management controller by Redfish (DMTF DSP0266; schemas Power, EnvironmentMetrics
//! and Sensor of DSP8010).

use super::client::{Client, Credentials, Failure};
use serde_json::Value;

/// A resource of a controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    origin: String,
    /// Path of the resource; empty to search below the only chassis.
    path: String,
    /// Number of the member of `PowerControl`.
    member: Option<usize>,
}

/// Credentials in the form sent, and the session that they opened.
#[derive(Default)]
pub struct Access {
    credentials: Option<Credentials>,
    by_session: bool,
    header: Option<(&'static str, String)>,
    session: Option<String>,
}

const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

impl Access {
    /// Creates access by these credentials, in a session or with each request.
    pub fn new(credentials: Option<Credentials>, by_session: bool) -> Self {
        Self { credentials, by_session, ..Self::default() }
    }

    fn open(&mut self, client: &Client, origin: &str) -> Result<(), Failure> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        if self.header.is_none() {
            self.header = Some(match credentials.session().filter(|_| self.by_session) {
                Some(body) => {
                    let (token, place) = client.post(&format!("{origin}{SESSIONS}"), &body)?;
                    self.session = place;
                    ("X-Auth-Token", token)
                }
                None => credentials.header(),
            });
        }
        Ok(())
    }

    fn get(&self, client: &Client, url: &str) -> Result<Value, Failure> {
        let header = self.header.as_ref().map(|(name, value)| (*name, value.as_str()));
        let text = client.get(url, None, header)?;
        Ok(serde_json::from_str(&text).map_err(|error| format!("{url}: no JSON: {error}"))?)
    }

    /// Ends the session.
    pub fn close(&mut self, client: &Client, resource: &Resource) {
        let (header, session) = (self.header.take(), self.session.take());
        if let Some(((name, value), place)) = header.zip(session) {
            // An address or a path. A token never goes to another host.
            let path = place.strip_prefix(&resource.origin).unwrap_or(&place);
            if path.starts_with('/') && !path.starts_with("//") {
                client.delete(&format!("{}{path}", resource.origin), (name, &value));
            }
        }
    }
}

impl Resource {
    /// Parses `https://BMC/PATH#MEMBER`; path and member may be missing.
    ///
    /// # Errors
    /// A text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (url, member) = match text.split_once('#') {
            Some((url, member)) => {
                let number = member.parse().map_err(|_| {
                    format!(
                        "#{member}: expected the number of a member of PowerControl, such as #0"
                    )
                })?;
                (url, Some(number))
            }
            None => (text, None),
        };
        let rest = url.strip_prefix("https://").filter(|rest| !rest.is_empty());
        let rest =
            rest.ok_or("expected redfish:https://BMC or redfish:https://BMC/redfish/v1/...")?;
        let (_, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let origin = url[..url.len() - path.len()].to_owned();
        let path = if path.trim_end_matches('/') == "/redfish/v1" { "" } else { path };
        Ok(Self { origin, path: path.trim_end_matches('/').to_owned(), member })
    }

    /// Queries the watts.
    pub fn ask(&self, client: &Client, access: &mut Access) -> Result<f64, Failure> {
        let fresh = access.header.is_none();
        access.open(client, &self.origin)?;
        let answer = self.watts(client, access);
        if !fresh && access.by_session && answer.as_ref().is_err_and(|failure| failure.denied) {
            // The session has expired.
            access.header = None;
            access.open(client, &self.origin)?;
            return self.watts(client, access);
        }
        answer
    }

    fn watts(&self, client: &Client, access: &Access) -> Result<f64, Failure> {
        let get = |path: &str| access.get(client, &format!("{}{path}", self.origin));
        if !self.path.is_empty() {
            return Ok(watts(&get(&self.path)?, self.member)?);
        }
        let all = get("/redfish/v1/Chassis")?;
        let members = all["Members"].as_array().map_or(&[][..], Vec::as_slice);
        let paths: Vec<&str> = members.iter().filter_map(|it| it["@odata.id"].as_str()).collect();
        let [chassis] = paths[..] else {
            let paths = paths.join(", ");
            return Err(format!("name the resource, below one of its chassis: {paths}").into());
        };
        let chassis = get(own(chassis)?)?;
        let mut failure = None;
        for link in ["EnvironmentMetrics", "Power"] {
            let Some(path) = chassis[link]["@odata.id"].as_str() else { continue };
            match get(own(path)?).and_then(|it| Ok(watts(&it, self.member)?)) {
                Err(next) if !next.denied => failure = Some(next),
                other => return other,
            }
        }
        Err(failure.unwrap_or_else(|| {
            "its chassis links neither EnvironmentMetrics nor Power: name the resource"
                .to_owned()
                .into()
        }))
    }
}

/// Returns a path on the controller, if it is valid.
fn own(path: &str) -> Result<&str, String> {
    let usable = path.starts_with("/redfish/") && path.chars().all(|c| c.is_ascii_graphic());
    if usable { Ok(path) } else { Err(format!("{path:?} is no path of Redfish")) }
}

/// Returns the watts of a resource of any of the three schemas.
fn watts(resource: &Value, member: Option<usize>) -> Result<f64, String> {
    if let Some(all) = resource["PowerControl"].as_array() {
        let name = |(number, one): (usize, &Value)| {
            format!("#{number} {}", one["Name"].as_str().unwrap_or("without a name"))
        };
        let has = |one: &&Value| one["PowerConsumedWatts"].is_number();
        let one = match member {
            Some(number) => all.get(number),
            // Some controllers list parts next to the whole.
            None if all.iter().filter(has).count() > 1 => {
                let names: Vec<String> = all.iter().enumerate().map(name).collect();
                return Err(format!("choose a member of PowerControl: {}", names.join(", ")));
            }
            None => all.iter().find(has),
        };
        let one = one.unwrap_or(&Value::Null);
        is_enabled(one)?;
        return number(one, "PowerConsumedWatts");
    }
    is_enabled(resource)?;
    if resource["PowerWatts"].is_object() {
        return number(&resource["PowerWatts"], "Reading");
    }
    let (units, kind) = (&resource["ReadingUnits"], &resource["ReadingType"]);
    if units.as_str() == Some("W") || (units.is_null() && kind.as_str() == Some("Power")) {
        return number(resource, "Reading");
    }
    Err("it has neither PowerControl nor PowerWatts, and is no sensor of watts".to_owned())
}

fn is_enabled(one: &Value) -> Result<(), String> {
    match one["Status"]["State"].as_str() {
        None | Some("Enabled") => Ok(()),
        Some(state) => Err(format!("the sensor's state is {state:?}, expected Enabled")),
    }
}

fn number(of: &Value, name: &str) -> Result<f64, String> {
    let value = &of[name];
    value.as_f64().ok_or_else(|| format!("{name} is {value}, expected watts"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_schema_gives_watts_and_everything_else_a_reason() {
        let power = |all: Value| json!({ "PowerControl": all });
        let one = json!({ "Name": "System", "PowerConsumedWatts": 344, "Status": { "State": "Enabled" } });
        let part = json!({ "Name": "CPU", "PowerConsumedWatts": 120.5 });
        let metrics = json!({ "PowerWatts": { "Reading": 374 } });
        let sensor = json!({ "Reading": 80.5, "ReadingUnits": "W", "ReadingType": "Power" });
        for (resource, member, expected) in [
            (power(json!([one])), None, 344.0),
            (power(json!([one, { "Name": "no value" }])), None, 344.0),
            (power(json!([one, part])), Some(1), 120.5),
            (metrics, None, 374.0),
            (sensor.clone(), None, 80.5),
        ] {
            assert_eq!(watts(&resource, member), Ok(expected), "{resource}");
        }
        let mut absent = sensor.clone();
        absent["Status"] = json!({ "State": "Absent" });
        let mut celsius = sensor;
        celsius["ReadingUnits"] = json!("Cel");
        for (resource, member, says) in [
            (power(json!([one, part])), None, "#0 System, #1 CPU"),
            (power(json!([one])), Some(3), "PowerConsumedWatts is null"),
            (power(json!([])), None, "null"),
            (json!({ "PowerWatts": { "Reading": "n/a" } }), None, "n/a"),
            (absent, None, "Absent"),
            (celsius, None, "no sensor of watts"),
            (json!([1]), None, "neither"),
        ] {
            let found = watts(&resource, member);
            assert!(found.clone().is_err_and(|error| error.contains(says)), "{says}: {found:?}");
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let parsed = Resource::parse("https://[::1]:8443/redfish/v1/Chassis/1/Power#2").unwrap();
        assert_eq!(parsed.origin, "https://[::1]:8443");
        assert_eq!((&*parsed.path, parsed.member), ("/redfish/v1/Chassis/1/Power", Some(2)));
        assert_eq!(Resource::parse("https://bmc/redfish/v1/").unwrap().path, "");
        for wrong in ["http://bmc", "bmc", "https://", "https://bmc#x"] {
            assert!(Resource::parse(wrong).is_err(), "{wrong}");
        }
        assert!(own("https://other/redfish/").is_err() && own("//other/redfish").is_err());
    }
}
