//! `watch`: a worker's cost of captures and traces: after one has ended (`watch-off`), while one
//! runs that matches no packet (`watch-none`), and while a trace records every packet
//! (`watch-all`).

use super::application::Application;
use super::args::Args;
use super::report::Cost;
use crate::memory_router::{Error, Traffic, WINDOW};
use serde_json::json;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wattline_dataplane::feature::Feature;
use wattline_dataplane::tap::filter::Filter;
use wattline_dataplane::tap::record::Records;
use wattline_dataplane::tap::slots::TapSlots;
use wattline_dataplane::tap::tap::{Tap, TapCounters, TapOptions};

/// Documentation addresses, which the benchmark does not send to.
const NO_MATCH: &str = "src host 203.0.113.9 and dst host 203.0.113.9";
/// Recorded bytes of each frame, as in `wattline trace`.
const SNAP: u16 = 128;

struct Watch {
    name: &'static str,
    filter: &'static str,
    ends: bool,
    /// Slots of the capture or trace to end.
    running: Option<TapSlots>,
    records: Rc<RefCell<Option<Records>>>,
    counters: Option<Arc<TapCounters>>,
}

/// Packets; before each window, the records of the last one are read. This replaces the control
/// thread and is outside the timed part.
struct RecordReader {
    packets: Box<dyn Traffic>,
    records: Rc<RefCell<Option<Records>>>,
    written: usize,
}

impl Traffic for RecordReader {
    fn write(&mut self, chunk: &mut [u8]) -> usize {
        if self.written.is_multiple_of(WINDOW)
            && let Some(records) = &mut *self.records.borrow_mut()
        {
            while records.read().is_some() {}
        }
        self.written += 1;
        self.packets.write(chunk)
    }
}

/// Creates all three.
pub(super) fn make(_: &Args) -> Result<Vec<Box<dyn Application>>, Error> {
    let of = |name, filter, ends| -> Box<dyn Application> {
        Box::new(Watch {
            name,
            filter,
            ends,
            running: None,
            records: Rc::default(),
            counters: None,
        })
    };
    Ok(vec![
        of("watch-off", NO_MATCH, true),
        of("watch-none", NO_MATCH, false),
        of("watch-all", "", false),
    ])
}

impl Application for Watch {
    fn name(&self) -> &'static str {
        self.name
    }

    fn features(&mut self) -> Vec<Feature> {
        Vec::new()
    }

    fn watch(&mut self, slots: &TapSlots, chunks: u32) -> Result<(), Error> {
        let filter = Filter::parse(self.filter, &|_| None);
        let filter = filter.map_err(|error| Error::Table(error.to_string()))?;
        let options = TapOptions { filter, nodes: true, snap: SNAP, rate: u32::MAX };
        let (tap, records, counters) = Tap::new(options, chunks);
        slots.put(0, tap);
        self.running = self.ends.then(|| slots.clone());
        *self.records.borrow_mut() = Some(records);
        self.counters = Some(counters);
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        // After the first repeat, which is not timed.
        if let Some(slots) = self.running.take() {
            slots.take(0);
        }
        Ok(())
    }

    fn traffic(&mut self, packets: Box<dyn Traffic>) -> Box<dyn Traffic> {
        Box::new(RecordReader { packets, records: self.records.clone(), written: 0 })
    }

    fn counted(&self, _: &Cost) -> serde_json::Value {
        let of =
            |count: fn(&TapCounters) -> u64| self.counters.as_ref().map(|counters| count(counters));
        json!({
            "matched_packets": of(|it| it.matched.load(Ordering::Relaxed)),
            "missed_packets": of(|it| it.missed.load(Ordering::Relaxed)),
        })
    }
}
