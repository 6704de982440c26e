//! The sums that reports are made of.

use super::Engine;
use crate::totals::Totals;
use wattline_cores::{EgressCounts, Spent};
use wattline_units::Span;

impl Engine<'_> {
    /// Books the energy of the shared part of the chips up to now.
    pub(super) fn book_awake(&mut self) {
        let any = self.sink.awake.measure(self.now);
        self.totals.any_awake += any;
        let fastest = self.point.active.iter().map(|core| self.cores[core].costs.frequency).max();
        let frequency = self.platform.frequencies[fastest.unwrap_or(0)];
        let power = self.setting.server.power.uncore(frequency);
        self.totals.uncore_joules += (power * Span::from_picos(any)).0;
    }

    /// Books the integrals over the operating point up to now.
    pub(super) fn book_point(&mut self) {
        let picos = self.now - self.point_booked;
        self.point_booked = self.now;
        self.totals.active_picos += picos * self.point.active.len() as u64;
        let hertz = |core: usize| self.platform.frequencies[self.cores[core].costs.frequency].0;
        let sum: f64 = self.point.active.iter().map(hertz).sum();
        self.totals.cycles += sum * picos as f64 * 1e-12;
    }

    /// Everything counted up to now.
    pub fn totals(&mut self) -> Totals {
        self.book_point();
        for core in &mut self.cores {
            core.book(self.now, &mut self.sink);
            core.admit(self.now);
        }
        let mut totals = self.totals.clone();
        totals.at = self.now;
        totals.beyond_link = self.nic.beyond_link;
        totals.order = self.sink.watch.counts;
        for ring in self.cores.iter().flat_map(|core| &core.rings) {
            totals.arrivals += ring.arrivals;
            totals.drops += ring.drops;
            totals.waiting += ring.fill() as u64;
            totals.arrival_sum = totals.arrival_sum.wrapping_add(ring.arrival_sum);
        }
        totals.cores = self.cores.iter().map(|core| core.counts).collect();
        self.count_departures(&mut totals);
        totals.spent = self.cores.iter().map(|core| core.spent.clone()).collect::<Vec<Spent>>();
        totals.open_overload =
            self.cores.iter().map(|core| core.open_overload(self.now)).max().unwrap_or(0);
        totals
    }

    /// What has left: where output links are modelled, by the end of its last bit.
    fn count_departures(&self, totals: &mut Totals) {
        if let Some(egress) = &self.sink.egress {
            let EgressCounts { packets, bytes, drops, departure_sum } = egress.counts;
            (totals.forwarded, totals.forwarded_bytes) = (packets, bytes);
            (totals.output_drops, totals.departure_sum) = (drops, departure_sum);
            totals.waiting += egress.inside() + self.sink.watch.holding();
            return;
        }
        totals.departure_sum = self.sink.watch.counts.hold_picos;
        for counts in self.cores.iter().map(|core| &core.counts) {
            totals.forwarded += counts.packets;
            totals.forwarded_bytes += counts.bytes;
            totals.departure_sum = totals.departure_sum.wrapping_add(counts.departure_sum);
        }
    }
}
