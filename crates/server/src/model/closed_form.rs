//! Capacity, power and latency at an operating point in closed form.
//!
//! This is a check on the simulator, not its engine. Packets arrive as a Poisson stream spread
//! evenly over the active cores. An interrupt-driven core is then an M/G/1 queue with a set-up time
//! (P. D. Welch, "On a generalized M/G/1 queuing process in which the first customer of each busy
//! period receives exceptional service", Operations Research 12, 1964).

use super::{PacketCost, PowerBreakdown, PowerTerms, ServerModel, ServiceDistribution};
use serde::Serialize;
use wattline_units::{BitsPerSecond, Hertz, PacketsPerSecond, Span};

/// Behaviour of an active core when its queue is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Polls and never sleeps (Click, DPDK).
    Poll,
    /// Sleeps until an interrupt wakes it (NAPI).
    Napi,
}

/// An operating point at which all active cores have the same settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UniformPoint {
    /// Number of active cores.
    pub cores: usize,
    /// Frequency of every active core.
    pub frequency: Hertz,
    /// Behaviour of an active core when its queue is empty.
    pub mode: Mode,
    /// Idle state of active cores while they nap, an index of [`ServerModel::idle_states`].
    pub nap: usize,
    /// Idle state of the inactive cores, an index of [`ServerModel::idle_states`].
    pub parked: usize,
}

/// Mean latency of forwarded packets, by part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Time in cards and buses.
    pub pass_through: Span,
    /// Time in the queue, including the wake-up.
    pub waiting: Span,
    /// Time of processing.
    pub service: Span,
}

impl Latency {
    /// Total from the first bit in to the first bit out.
    pub fn total(&self) -> Span {
        self.pass_through + self.waiting + self.service
    }
}

impl ServerModel {
    /// Returns a point with `cores` active cores at `frequency` that nap in the shallowest idle
    /// state; the others are parked in the deepest, as in PowerSave.
    pub fn napi_point(&self, cores: usize, frequency: Hertz) -> UniformPoint {
        UniformPoint {
            cores,
            frequency,
            mode: Mode::Napi,
            nap: self.shallowest_idle_state(),
            parked: self.deepest_idle_state(),
        }
    }

    /// Returns the same point with active cores that never sleep.
    pub fn polling_point(&self, cores: usize, frequency: Hertz) -> UniformPoint {
        UniformPoint { mode: Mode::Poll, ..self.napi_point(cores, frequency) }
    }

    /// Returns the packets per second that the cores can forward: R(m, f).
    pub fn core_capacity(
        &self,
        cost: PacketCost,
        cores: usize,
        frequency: Hertz,
    ) -> PacketsPerSecond {
        PacketsPerSecond(cores as f64 / self.service_seconds(cost, frequency, cores))
    }

    /// Returns the frames per second of one size that all links together carry.
    pub fn link_capacity(&self, frame_bytes: u32) -> PacketsPerSecond {
        PacketsPerSecond(self.nic.ports as f64 * self.nic.frames_per_second_of_link(frame_bytes))
    }

    /// Returns the forwarded rate of an offered load, limited by cores and links.
    pub fn forwarded(
        &self,
        cost: PacketCost,
        frame_bytes: u32,
        point: &UniformPoint,
        offered: PacketsPerSecond,
    ) -> PacketsPerSecond {
        let cores = self.core_capacity(cost, point.cores, point.frequency);
        let limit = cores.0.min(self.link_capacity(frame_bytes).0);
        PacketsPerSecond(offered.0.min(limit))
    }

    /// Returns the share of time that an active core is out of its idle state. It is 1 when polling
    /// or saturated, else (w + B) / (1/λ + d + w + B). A cycle consists of an empty queue's wait
    /// 1/λ, the interrupt's delivery d, the wake-up w and the busy period B = (1 + λ(d + w)) s / (1
    /// - λs).
    pub fn awake_fraction(
        &self,
        cost: PacketCost,
        point: &UniformPoint,
        offered: PacketsPerSecond,
    ) -> f64 {
        if point.mode == Mode::Poll {
            return 1.0;
        }
        if offered.0 <= 0.0 || point.cores == 0 {
            return 0.0;
        }
        let service = self.service_seconds(cost, point.frequency, point.cores);
        let rate = offered.0 / point.cores as f64;
        let utilisation = rate * service;
        if utilisation >= 1.0 {
            return 1.0;
        }
        let set_up = self.set_up_seconds(point);
        let busy = (1.0 + rate * set_up) * service / (1.0 - utilisation);
        let asleep = 1.0 / rate + self.wake_up.delivery_seconds;
        let awake = set_up - self.wake_up.delivery_seconds + busy;
        awake / (asleep + awake)
    }

    /// Returns the power by cause at an operating point under a load; `frame_bytes` excludes the 20
    /// bytes that a frame adds on the link.
    pub fn power_terms(
        &self,
        cost: PacketCost,
        frame_bytes: u32,
        point: &UniformPoint,
        offered: PacketsPerSecond,
    ) -> PowerTerms {
        let forwarded = self.forwarded(cost, frame_bytes, point, offered);
        let awake = self.awake_fraction(cost, point, forwarded);
        let active = point.cores as f64;
        let parked = self.processor.cores().saturating_sub(point.cores) as f64;
        let any_awake = 1.0 - (1.0 - awake).powi(point.cores as i32);
        let bits = BitsPerSecond(forwarded.0 * f64::from(frame_bytes) * 8.0);
        PowerTerms {
            base: self.power.base.total(),
            awake_cores: self.awake_core_power(point.frequency) * (active * awake),
            idle_cores: self.idle_core_power(point.nap) * (active * (1.0 - awake))
                + self.idle_core_power(point.parked) * parked,
            uncore: self.power.uncore(point.frequency) * any_awake,
            traffic: self.power.traffic(bits),
        }
    }

    /// Returns the power by component at an operating point under a load.
    pub fn power_at(
        &self,
        cost: PacketCost,
        frame_bytes: u32,
        point: &UniformPoint,
        offered: PacketsPerSecond,
    ) -> PowerBreakdown {
        self.power.breakdown(&self.power_terms(cost, frame_bytes, point, offered))
    }

    /// Returns the mean latency under a Poisson load; `None` if the load is not below the capacity.
    pub fn mean_latency(
        &self,
        cost: PacketCost,
        point: &UniformPoint,
        offered: PacketsPerSecond,
    ) -> Option<Latency> {
        let service = self.service_seconds(cost, point.frequency, point.cores);
        let rate = offered.0 / point.cores as f64;
        let utilisation = rate * service;
        if point.cores == 0 || utilisation >= 1.0 {
            return None;
        }
        // E[S²]/E[S]²: 1 for a fixed service time, 2 for an exponential one.
        let second_moment = match self.capacity.service {
            ServiceDistribution::Fixed => 1.0,
            ServiceDistribution::Exponential => 2.0,
        } * service
            * service;
        let queueing = rate * second_moment / (2.0 * (1.0 - utilisation));
        let set_up = match point.mode {
            Mode::Poll => 0.0,
            Mode::Napi => {
                let w = self.set_up_seconds(point);
                (2.0 * w + rate * w * w) / (2.0 * (1.0 + rate * w))
            }
        };
        Some(Latency {
            pass_through: self.nic.pass_through,
            waiting: Span::from_seconds(queueing + set_up),
            service: Span::from_seconds(service),
        })
    }

    /// Returns the time from the first packet's arrival to its service.
    fn set_up_seconds(&self, point: &UniformPoint) -> f64 {
        self.wake_up.delivery_seconds
            + self.wake_up_seconds(point.frequency)
            + self.extra_exit_latency(point.nap).as_seconds()
    }
}
