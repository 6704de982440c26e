//! A tunnel in use: its two SAs, their numbers on disk, and their lifetime.

use super::origin::Progress;
use super::reservation::Reservation;
use super::store::{KeyFile, Received, Store};
use crate::esp::algorithm::Algorithm;
use crate::esp::association::{Common, DontFragment, Dscp, Inbound, Outbound};
use crate::esp::key::KeyMaterial;
use crate::esp::policy::Prefixes;
use crate::esp::replay::ReplayWindow;
use crate::esp::sequence::Sequence;
use crate::esp::transform::Transform;
use crate::section::{Lifetime, TunnelSettings};
use ipnet::IpNet;
use std::sync::Arc;
use std::time::Instant;
use wattline_packet::esp::UDP_PORT;
use wattline_status::applications::{
    AssociationState, AssociationStats, InboundStats, OutboundStats,
};

/// Number of sequence numbers reserved at a time: a second of minimum-size packets on a 10 Gbit/s
/// port, and 0.4 % of the 32-bit range.
const STRETCH: u64 = 1 << 24;

/// Parameters of one direction, as negotiated or configured.
pub(super) struct Terms {
    pub name: String,
    pub spi: u32,
    pub algorithm: Algorithm,
    pub key: KeyMaterial,
    pub extended: bool,
    pub ends: (std::net::IpAddr, std::net::IpAddr),
    pub udp: Option<(u16, u16)>,
    pub hard: Lifetime,
    pub soft: Lifetime,
    /// Highest number that is known to be used already.
    pub used: u64,
}

impl Terms {
    fn common(&self) -> Result<Common, String> {
        let transform = Transform::new(self.algorithm, &self.key)
            .map_err(|_| format!("{}: the key does not fit the algorithm", self.name))?;
        let (name, limits) = (self.name.clone(), self.hard.limits);
        Ok(Common::new(name, self.spi, transform, self.extended, self.ends, self.udp, limits))
    }
}

/// Lifetime of an SA.
struct Age {
    since: Instant,
    soft: Lifetime,
    hard: Lifetime,
    warned: bool,
    ended: bool,
}

impl Age {
    fn new(terms: &Terms) -> Self {
        let (soft, hard) = (terms.soft, terms.hard);
        Self { since: Instant::now(), soft, hard, warned: false, ended: false }
    }

    /// Warns, or ends the SA, when its time has come.
    fn tick(&mut self, now: Instant, common: &Common, what: &str) {
        let age = now.saturating_duration_since(self.since);
        if !self.ended && (common.is_at_end() || self.hard.time.is_some_and(|most| age >= most)) {
            common.end();
            self.ended = true;
            tracing::error!(
                "ipsec {} ({what}, spi {:#x}): its keys have reached their hard lifetime and are no longer used",
                common.name,
                common.spi
            );
        }
        let soft = &self.soft;
        let over = soft.time.is_some_and(|most| age >= most)
            || common.counters.packets() >= soft.limits.packets
            || common.counters.bytes() >= soft.limits.bytes;
        if over && !self.warned && !self.ended {
            self.warned = true;
            tracing::warn!(
                "ipsec {} ({what}, spi {:#x}): its keys have reached their soft lifetime: replace them",
                common.name,
                common.spi
            );
        }
    }

    fn state(&self) -> AssociationState {
        match (self.ended, self.warned) {
            (true, _) => AssociationState::Ended,
            (false, true) => AssociationState::Expiring,
            (false, false) => AssociationState::Active,
        }
    }
}

/// A sending SA with its numbers on disk.
pub(super) struct Sending {
    pub association: Arc<Outbound>,
    number: Reservation,
    age: Age,
    is_exhaustion_logged: bool,
    /// Reason why numbers cannot be written, since the first failure.
    fault: Option<String>,
}

impl Sending {
    pub fn new(
        terms: &Terms,
        key: KeyFile,
        (mtu, dscp, dont_fragment): (u16, Dscp, DontFragment),
    ) -> Result<Self, String> {
        let most = if terms.extended { u64::MAX } else { u32::MAX.into() };
        let numbers = key.send(terms.spi, terms.used, most)?;
        let sequence = Sequence::new(numbers.value(), terms.extended).up_to(numbers.most());
        let (common, iv_offset) = (terms.common()?, numbers.iv_offset());
        let association =
            Arc::new(Outbound { common, sequence, iv_offset, dscp, dont_fragment, mtu });
        let (number, age) = (Reservation::new(numbers), Age::new(terms));
        let mut sending =
            Self { association, number, age, is_exhaustion_logged: false, fault: None };
        if let Some(wanted) = sending.wanted() {
            sending.number.write(wanted)?;
            sending.association.sequence.reserve(wanted);
        }
        Ok(sending)
    }

    /// Returns the bound to write to disk next, if it is time: half a stretch before the numbers
    /// run out, so that not every call has to write.
    fn wanted(&self) -> Option<u64> {
        let sequence = &self.association.sequence;
        let ahead = |numbers| sequence.last().saturating_add(numbers).min(sequence.most());
        let is_time =
            sequence.reserved() < ahead(STRETCH / 2) || self.number.value() < sequence.reserved();
        is_time.then(|| ahead(STRETCH).max(sequence.reserved()))
    }

    /// Reserves a stretch of numbers in advance, without waiting for the disk. Numbers are used
    /// only once the bound is on disk. Returns true if a bound has been written since the last
    /// call.
    fn reserve(&mut self) -> Result<bool, String> {
        let written = self.number.poll()?;
        if let Some(written) = written {
            self.association.sequence.reserve(written);
        }
        self.wanted().map_or(Ok(()), |wanted| self.number.begin(wanted))?;
        Ok(written.is_some())
    }

    pub fn tick(&mut self, now: Instant) {
        let common = &self.association.common;
        self.age.tick(now, common, "outbound");
        if self.association.sequence.is_exhausted() && !self.is_exhaustion_logged {
            self.is_exhaustion_logged = true;
            tracing::error!(
                "ipsec {}: its sequence numbers are used up: replace its keys",
                common.name
            );
        }
        let name = self.association.clone();
        let name = &name.common.name;
        match self.reserve() {
            Err(fault) if self.fault.as_ref() != Some(&fault) => {
                tracing::error!(
                    "ipsec {name}: {fault}; sending stops when the reserved sequence numbers are used \
                     up, unless it can be written before"
                );
                self.fault = Some(fault);
            }
            Ok(true) if self.fault.take().is_some() => {
                tracing::info!("ipsec {name}: its sequence numbers can be written again");
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Ends the use of numbers: the next router may continue right here.
    pub fn finish(&mut self) {
        if let Err(error) = self.number.write(self.association.sequence.last()) {
            tracing::warn!("ipsec: {error}");
        }
    }

    /// Progress for the SA's origin.
    pub fn progress(&self) -> Progress<'_> {
        let Outbound { common, sequence, .. } = &*self.association;
        let nearly = sequence.most() - sequence.most() / 16;
        Progress {
            common,
            sent: sequence.last(),
            received: 0,
            expiring: self.age.warned || sequence.last() >= nearly,
            ended: self.age.ended,
        }
    }

    pub fn stats(&self) -> OutboundStats {
        let sequence = &self.association.sequence;
        let state = match sequence.is_exhausted() {
            true => AssociationState::Exhausted,
            false => self.age.state(),
        };
        let association = stats(&self.association.common, state);
        OutboundStats { association, sequence: sequence.last() }
    }
}

/// A receiving SA with its highest number on disk.
pub(super) struct Receiving {
    pub association: Arc<Inbound>,
    number: Received,
    /// Locked while the SA is in use.
    _key: KeyFile,
    age: Age,
}

impl Receiving {
    pub fn new(
        terms: &Terms,
        mut key: KeyFile,
        store: &Store,
        window: u32,
        selectors: Vec<Prefixes>,
    ) -> Result<Self, String> {
        let number = store.received(&terms.key, terms.spi, &mut key)?;
        let window = Arc::new(ReplayWindow::new(window, number.value().max(terms.used)));
        let common = Arc::new(terms.common()?);
        let association = Arc::new(Inbound { common, window, selectors });
        Ok(Self { association, number, _key: key, age: Age::new(terms) })
    }

    /// Changes the selectors only: received numbers are kept, also while some workers still use the
    /// old selectors.
    pub fn select(&mut self, selectors: Vec<Prefixes>) {
        if self.association.selectors != selectors {
            let Inbound { common, window, .. } = &*self.association;
            let (common, window) = (common.clone(), window.clone());
            self.association = Arc::new(Inbound { common, window, selectors });
        }
    }

    pub fn tick(&mut self, now: Instant) {
        self.age.tick(now, &self.association.common, "inbound");
        let highest = self.association.window.highest();
        if highest > self.number.value()
            && let Err(error) = self.number.write(highest)
        {
            tracing::error!("ipsec: {error}; after a restart old packets may be accepted again");
        }
    }

    /// Progress for the SA's origin.
    pub fn progress(&self) -> Progress<'_> {
        let Inbound { common, window, .. } = &*self.association;
        Progress {
            common,
            sent: 0,
            received: window.highest(),
            expiring: self.age.warned,
            ended: self.age.ended,
        }
    }

    pub fn stats(&self, warning: Option<String>) -> InboundStats {
        InboundStats {
            association: stats(&self.association.common, self.age.state()),
            highest_sequence: self.association.window.highest(),
            warning,
        }
    }
}

fn stats(common: &Common, state: AssociationState) -> AssociationStats {
    let dropped = common.counters.dropped();
    AssociationStats {
        name: common.name.clone(),
        spi: format!("{:#010x}", common.spi),
        algorithm: common.transform.algorithm().name().to_owned(),
        local: common.local,
        remote: common.remote,
        state,
        packets: common.counters.packets(),
        bytes: common.counters.bytes(),
        dropped: dropped.map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
    }
}

/// Makes both directions of a configured tunnel from their keys and the keys' state: received
/// packets, then sent ones.
pub(super) fn from_settings(
    settings: &TunnelSettings,
    [key_in, key_out]: [KeyMaterial; 2],
    [state_in, state_out]: [KeyFile; 2],
    store: &Store,
    policies: &[(IpNet, IpNet)],
) -> Result<(Sending, Receiving), String> {
    let within =
        |key: &str, error: String| format!("[[ipsec_tunnel]] {}: {key}: {error}", settings.name);
    let terms = |spi, key| Terms {
        name: settings.name.clone(),
        spi,
        algorithm: settings.algorithm,
        key,
        extended: settings.extended,
        ends: (settings.local, settings.remote),
        udp: settings.udp.map(|remote| (UDP_PORT, remote)),
        hard: settings.hard,
        soft: settings.soft,
        used: 0,
    };
    let inbound = terms(settings.spi_in, key_in);
    let outbound = terms(settings.spi_out, key_out);
    let outer = (settings.mtu, settings.dscp, settings.dont_fragment);
    let selectors = policies
        .iter()
        .map(|(source, destination)| Prefixes { source: *destination, destination: *source })
        .collect();
    let sending =
        Sending::new(&outbound, state_out, outer).map_err(|error| within("key_out", error))?;
    let receiving = Receiving::new(&inbound, state_in, store, settings.window, selectors)
        .map_err(|error| within("key_in", error))?;
    Ok((sending, receiving))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::key_state::Role;
    use crate::esp::association::Limits;
    use std::time::Duration;

    fn terms(soft: Lifetime, hard: Lifetime) -> Terms {
        let algorithm = Algorithm::Aes128Gcm;
        Terms {
            name: "branch".to_owned(),
            spi: 0x1001,
            algorithm,
            key: KeyMaterial::new(algorithm, vec![7; 20]).unwrap(),
            extended: false,
            ends: ([192, 0, 2, 1].into(), [192, 0, 2, 2].into()),
            udp: None,
            hard,
            soft,
            used: 0,
        }
    }

    fn sending(terms: &Terms, store: &Store) -> Sending {
        let state = store.key(&terms.key, terms.algorithm, Role::Send).unwrap();
        let state = state
            .unwrap_or_else(|| store.new_key(&terms.key, terms.algorithm, Role::Send).unwrap());
        Sending::new(terms, state, (u16::MAX, Dscp::Copy, DontFragment::Copy)).unwrap()
    }

    fn receiving(terms: &Terms, store: &Store) -> Receiving {
        let state = store.key(&terms.key, terms.algorithm, Role::Receive).unwrap();
        let state = state
            .unwrap_or_else(|| store.new_key(&terms.key, terms.algorithm, Role::Receive).unwrap());
        Receiving::new(terms, state, store, 64, vec![]).unwrap()
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn keys_age_by_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let time = |time| Lifetime { time, ..Lifetime::default() };
        let mut terms = terms(time(seconds(60)), time(seconds(90)));
        let mut sending = sending(&terms, &store);
        terms.key = KeyMaterial::new(terms.algorithm, vec![8; 20]).unwrap();
        let mut receiving = receiving(&terms, &store);
        let begin = sending.age.since.max(receiving.age.since);
        use AssociationState::{Active, Ended, Expiring};
        for (after, state) in [(59, Active), (60, Expiring), (89, Expiring), (90, Ended)] {
            sending.tick(begin + Duration::from_secs(after));
            receiving.tick(begin + Duration::from_secs(after));
            assert_eq!((sending.stats().association.state, after), (state, after));
            assert_eq!((receiving.stats(None).association.state, after), (state, after));
            let ended = state == Ended;
            assert_eq!(sending.association.common.is_at_end(), ended);
            assert_eq!(receiving.association.common.is_at_end(), ended);
            let progress = sending.progress();
            assert_eq!((progress.expiring, progress.ended), (after >= 60, ended));
        }
    }

    /// The control thread continues, and no number is used that is not on disk.
    #[test]
    fn a_disk_that_hangs_holds_back_numbers_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut sending = sending(&terms(Lifetime::default(), Lifetime::default()), &store);
        let sequence = &sending.association.clone().sequence;
        assert_eq!(sequence.reserved(), STRETCH);
        let (disk, lets) = crate::control::reservation::tests::disk();
        sending.number = Reservation::new(disk);
        // The disk has no number yet: a write begins, and hangs.
        for _ in 0..3 {
            sending.tick(Instant::now());
        }
        assert_eq!((sequence.reserved(), sending.number.value()), (STRETCH, 0));
        lets.send(true).unwrap();
        wattline_needs::until("the number is written", || {
            sending.tick(Instant::now());
            sending.number.value() != 0
        });
        assert_eq!((sequence.reserved(), sending.number.value()), (STRETCH, STRETCH));
    }

    #[test]
    fn keys_age_by_use() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let limits = |packets, bytes| Lifetime { limits: Limits { packets, bytes }, time: None };
        for (soft, hard) in [
            (limits(10, u64::MAX), limits(20, u64::MAX)),
            (limits(u64::MAX, 1000), limits(u64::MAX, 2000)),
        ] {
            let mut receiving = receiving(&terms(soft, hard), &store);
            use AssociationState::{Active, Ended, Expiring};
            for state in [Active, Expiring, Ended] {
                receiving.tick(Instant::now());
                assert_eq!(receiving.stats(None).association.state, state);
                receiving.association.common.counters.add(10, 1000);
            }
        }
    }

    #[test]
    fn the_end_of_32_bits_is_seen_coming() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut terms = terms(Lifetime::default(), Lifetime::default());
        for (used, expiring) in [(1 << 31, false), ((1 << 32) - (1 << 20), true)] {
            terms.used = used;
            let sending = sending(&terms, &store);
            assert_eq!(sending.progress().expiring, expiring);
        }
    }
}
