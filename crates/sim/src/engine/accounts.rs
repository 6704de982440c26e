//! Sums from which reports are made.

use super::Engine;
use crate::totals::Totals;
use wattline_cores::{EgressCounts, Spent, power_terms};
use wattline_policy::PowerView;
use wattline_units::{BitsPerSecond, Provenance, Span, Watts};

impl Engine<'_> {
    /// Accounts the energy of the chips' shared part up to now.
    pub(super) fn book_awake(&mut self) {
        let any = self.sink.awake.measure(self.now);
        self.totals.any_awake += any;
        let fastest = self.point.active.iter().map(|core| self.cores[core].costs.frequency).max();
        let frequency = self.platform.frequencies[fastest.unwrap_or(0)];
        let power = self.setting.server.power.uncore(frequency);
        self.totals.uncore_joules += (power * Span::from_picos(any)).0;
    }

    /// Accounts the integrals over the operating point up to now.
    pub(super) fn book_point(&mut self) {
        let picos = self.now - self.point_booked;
        self.point_booked = self.now;
        self.totals.active_picos += picos * self.point.active.len() as u64;
        let hertz = |core: usize| self.platform.frequencies[self.cores[core].costs.frequency].0;
        let sum: f64 = self.point.active.iter().map(hertz).sum();
        self.totals.cycles += sum * picos as f64 * 1e-12;
    }

    /// Returns the mean power since the last call, according to the server model.
    pub(super) fn mean_power(&mut self) -> PowerView {
        self.book_awake();
        let totals = self.totals();
        let before = std::mem::replace(&mut self.asked_totals, totals);
        let totals = &self.asked_totals;
        let over = Span::from_picos(totals.at - before.at);
        let seconds = over.as_seconds();
        let none: Vec<Spent>;
        let earlier = if before.spent.is_empty() {
            let states = self.platform.idle_states.len();
            none = vec![Spent::new(self.platform.frequencies.len(), states); totals.spent.len()];
            &none
        } else {
            &before.spent
        };
        let spent: Vec<Spent> =
            totals.spent.iter().zip(earlier).map(|(end, start)| end.since(start)).collect();
        let server = self.setting.server;
        let watts = if over == Span::ZERO {
            Watts::ZERO
        } else {
            let uncore = Watts((totals.uncore_joules - before.uncore_joules) / seconds);
            let bytes = totals.forwarded_bytes - before.forwarded_bytes;
            let bits = BitsPerSecond(bytes as f64 * 8.0 / seconds);
            power_terms(&spent, seconds, server, uncore, bits).total()
        };
        PowerView { watts, over, provenance: Provenance::MODELLED }
    }

    /// Returns the present values of all counts and sums.
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

    /// Counts the packets that have left; with output links, by the end of their last bit.
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
