//! Flow records of all workers on their way to collectors.
//!
//! The control thread takes records from the workers' rings, adds routing information about their
//! addresses, and passes them to one thread per collector ([`exporter`]). Only that thread waits
//! for the collector. Records of one flow from several workers are not merged: each counts since
//! the worker's last record, so a collector adds them up.

mod account;
mod exporter;
mod loss_log;
mod metrics;
mod session;
#[cfg(test)]
mod tests;

use crate::nodes::{Record, Records, Settings, worker};
use crate::section::FlowRecordsSettings;
use exporter::Exporter;
use ipnet::IpNet;
use loss_log::{LossLog, Losses};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_daemon::metrics::Exposition;
use wattline_dataplane::feature::Feature;
use wattline_dataplane::port::PortId;
use wattline_dataplane::routes::Routes;
use wattline_packet::ipfix::FlowRecord;
use wattline_rib::{FIRST_STATIC_LINK, Rib};
use wattline_router::RouterError;
use wattline_router::application::Application;
use wattline_router::config::{Config, PortSettings};
use wattline_status::applications::{
    ApplicationStats, ExportInterface, FlowCounts, FlowRecordsStats,
};
use wattline_status::{Flow, FlowTable};

/// Largest number of records taken from each worker at once; if there are more, the next round
/// follows immediately.
const MOST: usize = 8192;
/// Number of latest records that `wattline show flows` can print.
const MOST_RECENT: usize = 1024;
/// Number of records passed to the collectors' threads together.
const BATCH: usize = 1024;
/// Intervals at which the rings are read, at low and at high rates of records.
const SELDOM: Duration = Duration::from_millis(500);
const OFTEN: Duration = Duration::from_millis(5);
/// Longest time that collectors may take when the router stops.
const PATIENCE: Duration = Duration::from_secs(3);

/// Starts the application that the configuration asks for.
pub fn start(config: &Config) -> Result<Vec<Box<dyn Application>>, RouterError> {
    let Some(settings) = config.of::<FlowRecordsSettings>() else { return Ok(Vec::new()) };
    Ok(vec![Box::new(FlowRecords::start(settings, config)?)])
}

/// The application `flow_records`.
pub struct FlowRecords {
    settings: Settings,
    workers: Vec<Records>,
    exporters: Vec<Exporter>,
    /// Interface numbers, by port.
    interfaces: Vec<u32>,
    names: Vec<String>,
    /// Records taken from workers and not yet passed on.
    pending: Vec<FlowRecord>,
    /// The latest records, for `wattline show flows`.
    recent: VecDeque<Record>,
    loss_log: LossLog,
    due: Instant,
}

impl FlowRecords {
    /// Starts the collectors' threads.
    ///
    /// # Errors
    /// Fails when a thread cannot be started.
    pub fn start(settings: &FlowRecordsSettings, config: &Config) -> Result<Self, RouterError> {
        let exporters = settings.collectors.iter().map(|collector| {
            Exporter::start(*collector, settings).map_err(|source| {
                RouterError::system(format!("starting the export to {collector}"), source)
            })
        });
        Ok(Self {
            settings: Settings {
                flows: settings.flows,
                active: settings.active,
                idle: settings.idle,
                sampling_interval: settings.sampling_interval,
                sampling: settings.sampling,
                ports: chosen(settings, config),
                place: settings.place,
                ..Settings::default()
            },
            workers: Vec::new(),
            exporters: exporters.collect::<Result<_, _>>()?,
            interfaces: interface_numbers(config),
            names: config.ports.iter().map(|port| port.name.clone()).collect(),
            pending: Vec::new(),
            recent: VecDeque::with_capacity(MOST_RECENT),
            loss_log: LossLog::default(),
            due: Instant::now(),
        })
    }

    fn totals(&self) -> FlowCounts {
        self.workers.iter().flat_map(Records::totals).sum()
    }

    fn lost(&self) -> Losses {
        Losses {
            overload: self.totals().lost_records,
            collector: self.exporters.iter().map(Exporter::lost).sum(),
        }
    }

    /// Passes the pending records to the collectors' threads, which count those without room.
    fn hand_on(&mut self, until: Option<Instant>) {
        for batch in self.pending.chunks(BATCH) {
            let batch: Arc<[FlowRecord]> = batch.into();
            for exporter in &self.exporters {
                exporter.send(batch.clone(), until);
            }
        }
        self.pending.clear();
    }
}

impl Application for FlowRecords {
    fn name(&self) -> &'static str {
        "flow_records"
    }

    fn features(&mut self, _: u16) -> Vec<Feature> {
        let (feature, records) = worker(&self.settings);
        self.workers.push(records);
        vec![feature]
    }

    fn follow_routes(&mut self, rib: &Rib, routes: &Routes) {
        let Self { workers, interfaces, pending, recent, .. } = self;
        for (port, link) in rib.port_links().filter(|(_, link)| link.index < FIRST_STATIC_LINK) {
            // An interface that was created again has another index.
            if let Some(number) = interfaces.get_mut(usize::from(port.0)) {
                *number = link.index;
            }
        }
        let mut most = 0;
        let mut add = |record: &Record| {
            if recent.len() == MOST_RECENT {
                recent.pop_front();
            }
            recent.push_back(*record);
            pending.push(exported(record, interfaces, rib, routes));
        };
        for worker in workers {
            most = worker.take(MOST, &mut add).max(most);
            worker.take_rest(&mut add);
        }
        let wait = match most {
            MOST.. => Duration::ZERO,
            _ if most > MOST / 16 => OFTEN,
            _ => SELDOM,
        };
        self.due = Instant::now() + wait;
    }

    fn tick(&mut self, now: Instant) -> Instant {
        self.hand_on(None);
        let lost = self.totals();
        for exporter in &self.exporters {
            exporter.lost_before(&lost);
        }
        let losses = self.lost();
        self.loss_log.report(losses, now);
        self.due
    }

    fn losses(&self) -> Vec<(&'static str, u64)> {
        let Losses { overload, collector } = self.lost();
        vec![("flow-records-overload", overload), ("flow-records-collector", collector)]
    }

    fn metrics(&self, to: &mut Exposition) {
        metrics::write(to, self.lost(), &self.exporters);
    }

    fn stats(&self, to: &mut ApplicationStats) {
        let interfaces = self.interfaces.iter().zip(&self.names);
        let interface = |(number, port): (&u32, &String)| ExportInterface {
            number: *number,
            port: port.clone(),
        };
        to.flow_records = Some(FlowRecordsStats {
            tables: self.totals(),
            collectors: self.exporters.iter().map(Exporter::stats).collect(),
            interfaces: interfaces.map(interface).collect(),
        });
    }

    fn flows(&self, within: Option<IpNet>, most: usize) -> Option<FlowTable> {
        let port = |port: PortId| self.names.get(usize::from(port.0)).cloned();
        let flow = |record: &Record| Flow {
            source: record.source,
            destination: record.destination,
            protocol: record.protocol,
            source_port: record.source_port,
            destination_port: record.destination_port,
            packets: record.packets,
            bytes: record.bytes,
            port_in: port(record.port_in),
            port_out: record.port_out.and_then(port),
            first_millis: record.first_millis,
            last_millis: record.last_millis,
        };
        let asked = |record: &&Record| {
            within.is_none_or(|of| of.contains(&record.source) || of.contains(&record.destination))
        };
        let newest_first = || self.recent.iter().rev().filter(asked);
        Some(FlowTable {
            flows: newest_first().take(most).map(flow).collect(),
            total: newest_first().count(),
            flows_without_a_record_yet: self.totals().flows_live,
            ..FlowTable::default()
        })
    }

    /// Refuses changes of the recorded ports, which are fixed at the start.
    fn refuses_ports(&self, new: &Config) -> Option<String> {
        let wanted = new.of::<FlowRecordsSettings>().map(|settings| chosen(settings, new));
        let of = |ports: &[bool]| (0..).zip(ports).filter(|it| *it.1).map(|it| it.0).collect();
        let names: Option<Vec<usize>> = wanted.as_deref().map(of);
        let why = match names {
            None => "[flow_records] was removed, which needs a restart",
            Some(ports) if ports != of(&self.settings.ports) => {
                "[flow_records] ports has changed, which needs a restart"
            }
            Some(_) => return None,
        };
        Some(why.to_owned())
    }

    fn follow_ports(&mut self, new: &Config) {
        // Records of a removed port may still follow.
        let numbers = interface_numbers(new);
        self.interfaces.resize(numbers.len(), 0);
        self.names.resize(numbers.len(), String::new());
        for (place, port) in new.ports.iter().enumerate().filter(|(_, port)| !port.is_vacant()) {
            self.interfaces[place] = numbers[place];
            self.names[place].clone_from(&port.name);
        }
    }

    fn finish(&mut self, _: bool) {
        let until = Instant::now() + PATIENCE;
        self.hand_on(Some(until));
        self.exporters.iter_mut().for_each(Exporter::close);
        self.exporters.iter_mut().for_each(|exporter| exporter.join(until));
    }
}

/// Returns for each port whether it is recorded; empty if all are.
fn chosen(settings: &FlowRecordsSettings, config: &Config) -> Vec<bool> {
    if settings.ports.is_empty() {
        return Vec::new();
    }
    (0..config.ports.len()).map(|port| settings.ports.contains(&port)).collect()
}

/// Returns the interface numbers for collectors: the kernel's index, as in SNMP; for a port without
/// an interface, its position in the configuration, counted from 1.
fn interface_numbers(config: &Config) -> Vec<u32> {
    let number = |(place, port): (usize, &PortSettings)| {
        let Some(name) = port.kind.taken_over() else { return place as u32 + 1 };
        let text = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex"));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    config.ports.iter().enumerate().map(number).collect()
}

fn exported(record: &Record, interfaces: &[u32], rib: &Rib, routes: &Routes) -> FlowRecord {
    let interface = |port: PortId| interfaces.get(usize::from(port.0)).copied().unwrap_or(0);
    let path = rib.path_to(record.destination, routes);
    FlowRecord {
        source: record.source,
        destination: record.destination,
        next_hop: path.gateway.filter(|_| record.port_out.is_some()),
        source_port: record.source_port,
        destination_port: record.destination_port,
        protocol: record.protocol,
        service: record.service,
        tcp_flags: record.tcp_flags,
        ingress: interface(record.port_in),
        egress: record.port_out.map_or(0, interface),
        vlan: record.vlan_in,
        source_prefix: rib.path_to(record.source, routes).prefix_length,
        destination_prefix: path.prefix_length,
        packets: record.packets,
        bytes: record.bytes,
        first_millis: record.first_millis,
        last_millis: record.last_millis,
        end_reason: record.end as u8,
    }
}
