//! Reader and writer of power models of network devices in the YAML of NetPowerBench
//! (<https://github.com/nsg-ethz/NetPowerBench>, `power_model.yml`).
//!
//! All three layouts of that project are read: port type, transceiver and speed as nested keys next
//! to `metadata`; one flat table with `Device`, `Port_type`, `Port_speed`, `Transceivers`; and the
//! same table split into `Arguments` and `Power_model`. Files are written in the nested layout, the
//! only one that can hold several interfaces.

use super::LinkModel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattline_server::components::{Medium, NicCard};
use wattline_units::{BitsPerSecond, PacketsPerSecond, Watts};

/// Terms of one kind of interface, in watts unless noted. `None` for a term that was not measured
/// (`.nan`, or absent).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Terms {
    /// Power of the device without ports or transceivers.
    #[serde(rename = "P_BASE", skip_serializing_if = "Option::is_none")]
    pub base: Option<f64>,
    /// Power of a port that is switched on.
    #[serde(rename = "P_PORT", skip_serializing_if = "Option::is_none")]
    pub port: Option<f64>,
    /// Power of a transceiver with its link up: the sum of the next two terms.
    #[serde(rename = "P_TRX", skip_serializing_if = "Option::is_none")]
    pub transceiver: Option<f64>,
    /// Power of a transceiver that is plugged in.
    #[serde(rename = "P_TRX_IN", skip_serializing_if = "Option::is_none")]
    pub transceiver_in: Option<f64>,
    /// Power of a link that is up.
    #[serde(rename = "P_TRX_UP", skip_serializing_if = "Option::is_none")]
    pub transceiver_up: Option<f64>,
    /// Energy in joules per bit that a port carries in each direction.
    #[serde(rename = "E_BIT", skip_serializing_if = "Option::is_none")]
    pub energy_per_bit: Option<f64>,
    /// Energy in joules per packet that a port carries in each direction.
    #[serde(rename = "E_PKT", skip_serializing_if = "Option::is_none")]
    pub energy_per_packet: Option<f64>,
    /// Power of a port with any traffic at all.
    #[serde(rename = "P_OFFSET", skip_serializing_if = "Option::is_none")]
    pub offset: Option<f64>,
}

/// One kind of interface of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InterfacePower {
    /// Port type, such as `QSFP28`.
    pub port_type: String,
    /// Transceiver, such as `LR4`, or `PCC` for a passive copper cable.
    pub transceiver: String,
    /// Speed, such as `100G`.
    pub speed: String,
    /// Terms of its power.
    #[serde(flatten)]
    pub terms: Terms,
    /// Interface (port type, transceiver, speed) whose terms apply if this one was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<[String; 3]>,
}

/// The power model of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DevicePowerModel {
    /// Name of the device.
    pub device: String,
    /// Further metadata as text.
    pub metadata: BTreeMap<String, String>,
    /// Interfaces in the order of the file's keys.
    pub interfaces: Vec<InterfacePower>,
}

/// State of a port.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PortState {
    /// True if the link is up, which implies that the port is on and the transceiver plugged in.
    pub up: bool,
    /// Rate of frame bits in each direction.
    pub rate: BitsPerSecond,
    /// Packets per second in each direction.
    pub packets: PacketsPerSecond,
}

/// Errors in a power model or in a query of it.
#[derive(Debug, thiserror::Error)]
pub enum PowerModelError {
    /// The file is not YAML.
    #[error("{file}: {reason}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Message of the parser, with the position.
        reason: String,
    },
    /// The file is YAML but not a power model.
    #[error("{file}: {at}: {fault}")]
    Shape {
        /// Name of the file.
        file: String,
        /// Path of keys to the fault.
        at: String,
        /// The fault, and the allowed values.
        fault: String,
    },
    /// The model lacks a term that is needed.
    #[error("{interface}: {term} is not in the model; it was not measured")]
    Missing {
        /// Name of the interface.
        interface: String,
        /// Key of the term.
        term: &'static str,
    },
    /// The interface does not exist.
    #[error("no interface \"{name}\" in the model; there are {known}")]
    NoInterface {
        /// Requested name.
        name: String,
        /// Existing names.
        known: String,
    },
    /// The model could not be written.
    #[error("the model cannot be written as YAML: {0}")]
    Write(String),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Node {
    Number(f64),
    Text(String),
    Table(BTreeMap<String, Node>),
    Other(serde::de::IgnoredAny),
}

type Keys = BTreeMap<String, Node>;

impl InterfacePower {
    /// Returns the name on the command line: `QSFP28/PCC/100G`.
    pub fn name(&self) -> String {
        [self.port_type.as_str(), &self.transceiver, &self.speed].join("/")
    }

    /// Returns the power of these ports above the device's base: ports that are up, with their
    /// transceivers, and the energy of their traffic.
    ///
    /// # Errors
    /// Fails when a needed term was not measured.
    pub fn power(&self, ports: &[PortState]) -> Result<Watts, PowerModelError> {
        let need = |term: &'static str, value: Option<f64>| {
            value.ok_or_else(|| PowerModelError::Missing { interface: self.name(), term })
        };
        let terms = &self.terms;
        let mut total = 0.0;
        for port in ports {
            if port.up {
                let plugged = terms.transceiver_in.zip(terms.transceiver_up).map(|(a, b)| a + b);
                total += need("P_PORT", terms.port)?;
                total += need("P_TRX", plugged.or(terms.transceiver))?;
            } else {
                total += need("P_TRX_IN", terms.transceiver_in)?;
            }
            if port.rate.0 > 0.0 || port.packets.0 > 0.0 {
                total += need("P_OFFSET", terms.offset)?;
                total += need("E_BIT", terms.energy_per_bit)? * port.rate.0;
                total += need("E_PKT", terms.energy_per_packet)? * port.packets.0;
            }
        }
        Ok(Watts(total))
    }
}

impl DevicePowerModel {
    /// Parses one of the three layouts; `file` names it in errors.
    ///
    /// # Errors
    /// Fails when the text is not YAML or not a power model.
    pub fn parse(file: &str, text: &str) -> Result<Self, PowerModelError> {
        // A term that was not measured is written as .nan.
        let options = serde_saphyr::options! {
            non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
        };
        let keys: Keys = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().next().unwrap_or("no YAML");
            let reason = reason.trim_start_matches("error: ").to_owned();
            PowerModelError::Syntax { file: file.to_owned(), reason }
        })?;
        let shape = |at: &str, fault: &str| PowerModelError::Shape {
            file: file.to_owned(),
            at: at.to_owned(),
            fault: fault.to_owned(),
        };
        let model = match (keys.get("Power_model"), keys.get("Arguments")) {
            (Some(Node::Table(terms)), Some(Node::Table(arguments))) => {
                flat(arguments, terms, &shape)?
            }
            (None, None) if keys.contains_key("P_BASE") => flat(&keys, &keys, &shape)?,
            (None, None) => nested(&keys, &shape)?,
            _ => return Err(shape("Power_model", "needs Arguments, both as tables")),
        };
        if model.interfaces.is_empty() {
            return Err(shape(
                "top level",
                "no interface; a power model has P_BASE below port type, transceiver and speed",
            ));
        }
        Ok(model)
    }

    /// Returns the model in NetPowerBench's nested YAML.
    ///
    /// # Errors
    /// Fails when the serializer fails.
    pub fn to_yaml(&self) -> Result<String, PowerModelError> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Out<'m> {
            Terms(Terms),
            StandIn(BTreeMap<&'static str, BTreeMap<&'static str, &'m str>>),
            Text(&'m str),
            Table(BTreeMap<&'m str, Out<'m>>),
        }
        let mut root: BTreeMap<&str, Out<'_>> = BTreeMap::new();
        let mut metadata: BTreeMap<&str, Out<'_>> =
            self.metadata.iter().map(|(key, text)| (key.as_str(), Out::Text(text))).collect();
        metadata.insert("device_id", Out::Text(&self.device));
        root.insert("metadata", Out::Table(metadata));
        for interface in &self.interfaces {
            let leaf = match &interface.stand_in {
                None => Out::Terms(interface.terms),
                Some([port, trx, speed]) => Out::StandIn(BTreeMap::from([(
                    "default",
                    BTreeMap::from([
                        ("port_type", port.as_str()),
                        ("trx_phy", trx),
                        ("trx_speed", speed),
                    ]),
                )])),
            };
            let mut table = &mut root;
            for key in [interface.port_type.as_str(), &interface.transceiver] {
                let entry = table.entry(key).or_insert_with(|| Out::Table(BTreeMap::new()));
                match entry {
                    Out::Table(inner) => table = inner,
                    _ => return Err(PowerModelError::Write(format!("{key} is there twice"))),
                }
            }
            table.insert(&interface.speed, leaf);
        }
        serde_saphyr::to_string(&root).map_err(|error| PowerModelError::Write(error.to_string()))
    }

    /// Returns the interface with this name, such as `QSFP28/PCC/100G`, or the only one if `name`
    /// is `None`. An interface with a stand-in gives the stand-in.
    ///
    /// # Errors
    /// Fails when there is no such interface, or when there are several and `name` is `None`.
    pub fn interface(&self, name: Option<&str>) -> Result<&InterfacePower, PowerModelError> {
        let missing = |name: &str| PowerModelError::NoInterface {
            name: name.to_owned(),
            known: self.interfaces.iter().map(InterfacePower::name).collect::<Vec<_>>().join(", "),
        };
        let by_name = |name: &str| {
            self.interfaces.iter().find(|i| i.name() == name).ok_or_else(|| missing(name))
        };
        let found = match (name, self.interfaces.as_slice()) {
            (Some(name), _) => by_name(name)?,
            (None, [only]) => only,
            (None, _) => return Err(missing("")),
        };
        match &found.stand_in {
            None => Ok(found),
            Some(keys) => by_name(&keys.join("/")).and_then(|stand_in| {
                // A stand-in with a stand-in of its own was not measured either.
                if stand_in.stand_in.is_none() {
                    Ok(stand_in)
                } else {
                    Err(missing(&stand_in.name()))
                }
            }),
        }
    }

    /// Converts a card's tables: the base without links, the power per connected link, and the
    /// difference of active and idle power per bit of each direction. Returns `None` if the card's
    /// power was not measured over its links.
    pub fn from_card(card: &NicCard, source: &str) -> Option<Self> {
        let links = LinkModel::fit(&card.idle_by_links)?;
        let connected = card.idle_by_links.len() - 1;
        let dynamic = card.active? - card.idle_by_links.last().copied()?;
        let terms = Terms {
            base: Some(links.base.0),
            port: Some(0.0),
            transceiver: Some(links.per_link.0),
            transceiver_in: Some(0.0),
            transceiver_up: Some(links.per_link.0),
            // The throughput includes both directions.
            energy_per_bit: Some(dynamic.0 / (card.throughput?.0 / 2.0)),
            energy_per_packet: Some(0.0),
            offset: Some(0.0),
        };
        let medium = match card.medium {
            Some(Medium::Cx4) => "CX4",
            Some(Medium::Fibre) => "fibre",
            Some(Medium::BaseT) => "T",
            None => "unknown",
        };
        let note = format!(
            "a line through idle power with 0 to {connected} links; the power of a port, \
             a plugged transceiver and its link was not measured separately and is in P_TRX_UP; \
             energy per packet is not known and is part of E_BIT"
        );
        Some(Self {
            device: card.name.clone(),
            metadata: BTreeMap::from([
                ("note".to_owned(), note),
                ("source".to_owned(), source.to_owned()),
            ]),
            interfaces: vec![InterfacePower {
                port_type: "PCIe-card".into(),
                transceiver: medium.into(),
                speed: format!("{}G", (card.link.0 / 1e9).round()),
                terms,
                stand_in: None,
            }],
        })
    }
}

type Shape<'s> = &'s dyn Fn(&str, &str) -> PowerModelError;

fn text(keys: &Keys, key: &str, shape: Shape<'_>) -> Result<String, PowerModelError> {
    match keys.get(key) {
        Some(Node::Text(text)) => Ok(text.clone()),
        Some(Node::Number(number)) => Ok(number.to_string()),
        Some(_) => Err(shape(key, "is not a string")),
        None => Err(shape(key, "is missing; a text is needed")),
    }
}

fn flat(
    arguments: &Keys,
    terms: &Keys,
    shape: Shape<'_>,
) -> Result<DevicePowerModel, PowerModelError> {
    let mut metadata = BTreeMap::new();
    if arguments.contains_key("Traffic_generator") {
        metadata.insert("traffic_generator".into(), text(arguments, "Traffic_generator", shape)?);
    }
    Ok(DevicePowerModel {
        device: text(arguments, "Device", shape)?,
        metadata,
        interfaces: vec![InterfacePower {
            port_type: text(arguments, "Port_type", shape)?,
            transceiver: text(arguments, "Transceivers", shape)?,
            speed: text(arguments, "Port_speed", shape)?,
            terms: read_terms(terms, "", shape)?,
            stand_in: None,
        }],
    })
}

fn nested(keys: &Keys, shape: Shape<'_>) -> Result<DevicePowerModel, PowerModelError> {
    let mut metadata = BTreeMap::new();
    if let Some(Node::Table(known)) = keys.get("metadata") {
        for key in known.keys() {
            metadata.insert(key.clone(), text(known, key, shape)?);
        }
    }
    let device = metadata
        .remove("device_id")
        .ok_or_else(|| shape("metadata.device_id", "is missing; a text is needed"))?;
    let table = |at: &str, node: &'_ Node| match node {
        Node::Table(_) => Ok(()),
        _ => Err(shape(at, "is not a table of port type, transceiver and speed")),
    };
    let mut interfaces = Vec::new();
    for (port_type, node) in keys.iter().filter(|(key, _)| *key != "metadata") {
        table(port_type, node)?;
        let Node::Table(transceivers) = node else { continue };
        for (transceiver, node) in transceivers {
            table(&format!("{port_type}.{transceiver}"), node)?;
            let Node::Table(speeds) = node else { continue };
            for (speed, node) in speeds {
                let at = format!("{port_type}.{transceiver}.{speed}");
                table(&at, node)?;
                let Node::Table(leaf) = node else { continue };
                let stand_in = match leaf.get("default") {
                    Some(Node::Table(other)) => {
                        let key = |key| text(other, key, shape);
                        Some([key("port_type")?, key("trx_phy")?, key("trx_speed")?])
                    }
                    Some(_) => return Err(shape(&format!("{at}.default"), "is not a table")),
                    None => None,
                };
                let terms = match stand_in {
                    Some(_) => Terms::default(),
                    None => read_terms(leaf, &at, shape)?,
                };
                interfaces.push(InterfacePower {
                    port_type: port_type.clone(),
                    transceiver: transceiver.clone(),
                    speed: speed.clone(),
                    terms,
                    stand_in,
                });
            }
        }
    }
    Ok(DevicePowerModel { device, metadata, interfaces })
}

fn read_terms(keys: &Keys, at: &str, shape: Shape<'_>) -> Result<Terms, PowerModelError> {
    let term = |key: &str| match keys.get(key) {
        None => Ok(None),
        // A term that was not measured is written as .nan.
        Some(Node::Number(number)) if number.is_nan() => Ok(None),
        Some(Node::Number(number)) if number.is_finite() => Ok(Some(*number)),
        Some(_) => Err(shape(&format!("{at}.{key}"), "is not a finite number")),
    };
    let terms = Terms {
        base: term("P_BASE")?,
        port: term("P_PORT")?,
        transceiver: term("P_TRX")?,
        transceiver_in: term("P_TRX_IN")?,
        transceiver_up: term("P_TRX_UP")?,
        energy_per_bit: term("E_BIT")?,
        energy_per_packet: term("E_PKT")?,
        offset: term("P_OFFSET")?,
    };
    match terms.base {
        Some(_) => Ok(terms),
        None => Err(shape(&format!("{at}.P_BASE"), "is missing; a number of watts is needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_server::ComponentFile;

    /// NetPowerBench's nested layout with invented figures.
    const NESTED: &str = "
metadata:
  device_id: made-up
  connected_PSUs: 2
QSFP28:
  PCC:
    100G: {P_BASE: 250.0, P_PORT: 1.0, P_TRX: 0.5, P_TRX_IN: 0.3, P_TRX_UP: 0.2,
           E_BIT: 3.0e-12, E_PKT: 1.5e-08, P_OFFSET: -0.25}
  LR4:
    100G:
      default: {port_type: QSFP28, trx_phy: PCC, trx_speed: 100G}
SFP:
  T:
    1G: {P_BASE: 33.0, P_PORT: .nan}
";

    fn port(up: bool, rate: f64, packets: f64) -> PortState {
        PortState { up, rate: BitsPerSecond(rate), packets: PacketsPerSecond(packets) }
    }

    #[test]
    fn nested_models_are_read_and_predict() {
        let model = DevicePowerModel::parse("x", NESTED).unwrap();
        assert_eq!((model.device.as_str(), model.interfaces.len()), ("made-up", 3));
        assert_eq!(model.metadata["connected_PSUs"], "2");
        let copper = model.interface(Some("QSFP28/LR4/100G")).unwrap();
        assert_eq!(copper.name(), "QSFP28/PCC/100G");
        let loaded =
            copper.power(&[port(true, 1e11, 1e7), port(true, 0.0, 0.0), port(false, 0.0, 0.0)]);
        // 1.5 + 0.3 + 0.15 - 0.25, then 1.5, then 0.3.
        assert!((loaded.unwrap().0 - (1.7 + 1.5 + 0.3)).abs() < 1e-9);
        let copper = model.interface(Some("SFP/T/1G")).unwrap();
        let error = copper.power(&[port(true, 0.0, 0.0)]).unwrap_err().to_string();
        assert_eq!(error, "SFP/T/1G: P_PORT is not in the model; it was not measured");
        let error = model.interface(None).unwrap_err().to_string();
        assert!(error.contains("QSFP28/PCC/100G, SFP/T/1G"), "{error}");
    }

    #[test]
    fn written_model_is_read_back() {
        let model = DevicePowerModel::parse("x", NESTED).unwrap();
        let again = DevicePowerModel::parse("y", &model.to_yaml().unwrap()).unwrap();
        assert_eq!(model, again);
    }

    #[test]
    fn both_flat_layouts_are_the_same_model() {
        let flat = "Device: d\nPort_type: QSFP28\nPort_speed: 100G\nTransceivers: LR\n\
                    Traffic_generator: RDMA\nP_BASE: 284.5\nP_PORT: 1.9\n";
        let split = "Arguments:\n  Device: d\n  Port_type: QSFP28\n  Port_speed: 100G\n  \
                     Transceivers: LR\n  Traffic_generator: RDMA\nPower_model:\n  P_BASE: 284.5\n  \
                     P_PORT: 1.9\n";
        let (flat, split) = (
            DevicePowerModel::parse("x", flat).unwrap(),
            DevicePowerModel::parse("x", split).unwrap(),
        );
        assert_eq!(flat, split);
        assert_eq!(flat.interface(None).unwrap().terms.port, Some(1.9));
    }

    #[test]
    fn malformed_model_is_refused_with_its_place() {
        for (text, word) in [
            ("a: [", "x: "),
            ("", "x: "),
            ("metadata: {device_id: d}\n", "no interface"),
            ("QSFP28: {PCC: {100G: {P_BASE: 1}}}", "metadata.device_id"),
            ("metadata: {device_id: d}\nQ: 3", "Q: is not a table"),
            (
                "metadata: {device_id: d}\nQ: {P: {1G: {P_BASE: hot}}}",
                "Q.P.1G.P_BASE: is not a finite",
            ),
            ("metadata: {device_id: d}\nQ: {P: {1G: {P_PORT: 1}}}", "Q.P.1G.P_BASE: is missing"),
            ("Power_model: {P_BASE: 1}", "needs Arguments"),
        ] {
            let error = DevicePowerModel::parse("x", text).unwrap_err().to_string();
            assert!(error.contains(word) && error.starts_with("x: "), "{text:?}: {error}");
        }
    }

    #[test]
    fn card_with_link_states_reproduces_its_own_tables() {
        let file = ComponentFile::load("sohan-2010-nics").unwrap();
        let card = file.card("Intel Multiport(4x1G)").unwrap();
        let model = DevicePowerModel::from_card(card, &file.source).unwrap();
        let again = DevicePowerModel::parse("y", &model.to_yaml().unwrap()).unwrap();
        let interface = again.interface(None).unwrap();
        let ports = vec![port(true, 5.7e9 / 2.0 / 4.0, 0.0); 4];
        let power = interface.terms.base.unwrap() + interface.power(&ports).unwrap().0;
        assert!((power - card.active.unwrap().0).abs() < 0.1, "{power}");
        assert!(DevicePowerModel::from_card(file.card("Intel 1G").unwrap(), "").is_none());
    }
}
