//! Tunnels of the kernel: security associations (SAs) and policies of an IKE daemon.
//!
//! A policy names its SAs by a template: ends of the tunnel, a number (reqid), and optionally an
//! SPI. While keys are being replaced there are several SAs for one template. The newest one then
//! sends, and all of them receive. Unsupported SAs and policies (transport mode, other algorithms,
//! ports) are left to the kernel.

use super::kernel_terms::terms;
use super::key_state::Role;
use super::origin::Origin;
use super::store::{KeyFile, Store};
use super::tunnel::{Receiving, Sending, Terms};
use crate::esp::association::{DontFragment, Dscp};
use crate::esp::policy::{Decision, Policy, Prefixes};
use std::collections::{HashMap, HashSet};
use std::time::Instant;
use wattline_linux::netlink::xfrm::{
    Association, Policy as KernelPolicy, PolicyAction, PolicyDirection, Snapshot, Template,
};
use wattline_packet::protocol;

/// SPI and fingerprint of the key, which identify an SA.
type Identity = (u32, u64);

/// SAs of the kernel, as used here.
#[derive(Default)]
pub(super) struct Tunnels {
    sending: HashMap<Identity, Sending>,
    receiving: HashMap<Identity, Receiving>,
    origins: HashMap<Identity, Origin>,
    /// Sending SA of each policy template; `None` while there is no usable one.
    tunnels: Vec<(Template, Option<Identity>)>,
    policies: Vec<Policy>,
    /// Number of SAs and policies that are left to the kernel.
    pub left: u64,
}

impl Tunnels {
    /// Adopts the kernel's present state; `first` is the number of the first tunnel.
    pub fn follow(&mut self, snapshot: &Snapshot, store: &Store, first: usize) {
        self.left = snapshot.unreadable;
        // The kernel lists the newest first, but applies the oldest first among equal priorities.
        let mut policies: Vec<&KernelPolicy> = snapshot.policies.iter().rev().collect();
        policies.sort_by_key(|policy| policy.priority);
        self.tunnels.clear();
        self.policies.clear();
        for policy in policies.iter().filter(|it| it.direction == PolicyDirection::Out) {
            match self.decide(policy, first) {
                Some(decision) => {
                    let (source, destination) = (policy.source, policy.destination);
                    let prefixes = Prefixes { source, destination };
                    self.policies.push(Policy { prefixes, decision });
                }
                None => self.left += 1,
            }
        }
        let (mut sending, mut receiving) = (HashMap::new(), HashMap::new());
        let mut origins = HashMap::new();
        // As in the kernel: the newest SA; of those of the same second, the one listed first.
        let mut associations: Vec<&Association> =
            snapshot.associations.iter().filter(|it| !it.is_larval()).collect();
        associations.sort_by_key(|it| std::cmp::Reverse(it.current.added));
        // The key of a deleted SA is free for another one.
        let live: HashSet<Identity> =
            associations.iter().filter_map(|it| Some(identity(&terms(it)?))).collect();
        self.sending.retain(|identity, _| live.contains(identity));
        self.receiving.retain(|identity, _| live.contains(identity));
        for association in associations {
            let selectors = selectors(&policies, association);
            let sends = self.tunnels.iter().any(|(it, _)| fits(it, association));
            let terms = match terms(association) {
                Some(terms) if sends || !selectors.is_empty() => terms,
                _ => {
                    self.left += 1;
                    continue;
                }
            };
            let identity = identity(&terms);
            let origin = self.origins.remove(&identity);
            origins.insert(identity, origin.unwrap_or_else(|| Origin::new(association)));
            let made = if sends {
                let known = self.sending.remove(&identity).map(Ok);
                let outer = (u16::MAX, Dscp::Copy, DontFragment::Copy);
                let new = || Sending::new(&terms, key_file(store, &terms, Role::Send)?, outer);
                let one = known.unwrap_or_else(new);
                one.map(|one| {
                    for (template, identities) in &mut self.tunnels {
                        if fits(template, association) {
                            identities.get_or_insert(identity);
                        }
                    }
                    sending.insert(identity, one);
                })
            } else {
                // Its policies may have been added, changed or removed meanwhile.
                let known = self.receiving.remove(&identity).map(|mut one| {
                    one.select(selectors.clone());
                    Ok(one)
                });
                let local_terms = Terms { ends: (terms.ends.1, terms.ends.0), ..terms };
                let window = association.window.clamp(32, 65_536);
                let new = || {
                    let key = key_file(store, &local_terms, Role::Receive)?;
                    Receiving::new(&local_terms, key, store, window, selectors)
                };
                let one = known.unwrap_or_else(new);
                one.map(|one| {
                    receiving.insert(identity, one);
                })
            };
            if let Err(error) = made {
                tracing::error!(
                    "ipsec: SA of the kernel with spi {:#010x}: {error}",
                    association.spi
                );
                self.left += 1;
            }
        }
        // SAs that the kernel has deleted keep their reservation on disk: workers continue to send
        // with them until they see the change.
        (self.sending, self.receiving, self.origins) = (sending, receiving, origins);
    }

    /// Reports the use of SAs to the kernel; if `last`, without waiting for the interval.
    pub fn report_to_kernel(&mut self, now: Instant, last: bool) {
        let sending = self.sending.iter().map(|(identity, one)| (identity, one.progress()));
        let receiving = self.receiving.iter().map(|(identity, one)| (identity, one.progress()));
        for (identity, progress) in sending.chain(receiving) {
            if let Some(origin) = self.origins.get_mut(identity) {
                origin.report(&progress, now, last);
            }
        }
    }

    /// Returns the decision for packets that a policy selects; `None` if only the kernel can
    /// decide.
    fn decide(&mut self, policy: &KernelPolicy, first: usize) -> Option<Decision> {
        if policy.bound {
            return None;
        }
        if policy.narrower {
            // No packet that the policy may protect may leave in clear.
            let protects = policy.action == PolicyAction::Allow && !policy.templates.is_empty();
            return protects.then_some(Decision::Discard);
        }
        match (policy.action, policy.templates.as_slice()) {
            (PolicyAction::Block, _) => Some(Decision::Discard),
            (PolicyAction::Allow, []) => Some(Decision::Bypass),
            (PolicyAction::Allow, [template])
                if template.tunnel && template.protocol == protocol::ESP =>
            {
                let known = self.tunnels.iter().position(|(it, _)| it == template);
                let number = known.unwrap_or_else(|| {
                    self.tunnels.push((*template, None));
                    self.tunnels.len() - 1
                });
                u16::try_from(first + number).ok().map(Decision::Protect)
            }
            // Passing them in clear would be worse.
            (PolicyAction::Allow, _) => Some(Decision::Discard),
        }
    }

    /// Policies in their order.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Returns the sending SAs, by number of the tunnel.
    pub fn outbound(&self) -> impl Iterator<Item = Option<&Sending>> {
        self.tunnels.iter().map(|(_, identity)| self.sending.get(identity.as_ref()?))
    }

    /// Returns all receiving SAs.
    pub fn inbound(&self) -> impl Iterator<Item = &Receiving> {
        self.receiving.values()
    }

    /// Returns all SAs, including those that are being replaced, mutable.
    pub fn all_mut(
        &mut self,
    ) -> (impl Iterator<Item = &mut Sending>, impl Iterator<Item = &mut Receiving>) {
        (self.sending.values_mut(), self.receiving.values_mut())
    }
}

fn identity(terms: &Terms) -> Identity {
    (terms.spi, terms.key.fingerprint())
}

/// Returns the state of a key. IKE daemons make new keys each time, so a key without state has not
/// been used here.
fn key_file(store: &Store, terms: &Terms, role: Role) -> Result<KeyFile, String> {
    let (key, algorithm) = (&terms.key, terms.algorithm);
    let known = store.key(key, algorithm, role)?;
    known.map_or_else(|| store.new_key(key, algorithm, role), Ok)
}

fn fits(template: &Template, association: &Association) -> bool {
    (template.source, template.destination, template.protocol)
        == (association.source, association.destination, association.protocol)
        && (template.reqid == 0 || template.reqid == association.reqid)
        && (template.spi == 0 || template.spi == association.spi)
}

/// Selectors of an SA: the policies for received packets that require it.
fn selectors(policies: &[&KernelPolicy], association: &Association) -> Vec<Prefixes> {
    let asks = |policy: &&&KernelPolicy| {
        policy.direction != PolicyDirection::Out
            && policy.action == PolicyAction::Allow
            && policy.templates.iter().any(|template| fits(template, association))
    };
    let mut selectors: Vec<Prefixes> = policies
        .iter()
        .filter(asks)
        .map(|policy| Prefixes { source: policy.source, destination: policy.destination })
        .collect();
    // Each one occurs twice: for packets to this machine and for forwarded ones.
    selectors.dedup();
    selectors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::kernel_terms::tests::{FAR, NEAR, association};
    use wattline_linux::netlink::xfrm::{Current, Key};
    use zeroize::Zeroizing;

    fn policy(direction: PolicyDirection, priority: u32, tunnel: bool) -> KernelPolicy {
        let out = direction == PolicyDirection::Out;
        let (near, far) = ("10.1.0.0/16".parse().unwrap(), "10.2.0.0/16".parse().unwrap());
        let (from, to) = if out { (NEAR, FAR) } else { (FAR, NEAR) };
        let template = Template {
            source: from.into(),
            destination: to.into(),
            protocol: 50,
            spi: 0,
            reqid: 5,
            tunnel,
        };
        KernelPolicy {
            source: if out { near } else { far },
            destination: if out { far } else { near },
            narrower: false,
            bound: false,
            direction,
            priority,
            action: PolicyAction::Allow,
            templates: vec![template],
        }
    }

    fn snapshot(associations: Vec<Association>) -> Snapshot {
        let policies = vec![
            KernelPolicy { templates: vec![], ..policy(PolicyDirection::Out, 9, true) },
            policy(PolicyDirection::Out, 3, true),
            policy(PolicyDirection::In, 3, true),
            policy(PolicyDirection::Forward, 3, true),
        ];
        Snapshot { associations, policies, ..Snapshot::default() }
    }

    #[test]
    fn associations_are_joined_with_policies_and_kept_while_they_live() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut tunnels = Tunnels::default();
        let both = || vec![association(0x1001, NEAR, FAR), association(0x1002, FAR, NEAR)];
        tunnels.follow(&snapshot(both()), &store, 3);
        let decisions: Vec<_> = tunnels.policies().iter().map(|it| it.decision).collect();
        assert_eq!(decisions, [Decision::Protect(3), Decision::Bypass], "by priority");
        let sending = tunnels.outbound().next().unwrap().unwrap().association.clone();
        assert_eq!((sending.common.spi, sending.sequence.take(1).first), (0x1001, 10));
        assert_eq!(sending.common.remote, std::net::IpAddr::from(FAR));
        let receiving = tunnels.inbound().next().unwrap().association.clone();
        assert_eq!((receiving.common.spi, receiving.window.highest()), (0x1002, 9));
        assert_eq!(receiving.common.local, std::net::IpAddr::from(NEAR));
        assert_eq!(receiving.selectors.len(), 1);
        assert_eq!(tunnels.left, 0);

        // A list read between two policies of one SA lacks the second.
        let mut more = snapshot(both());
        let other = ("10.3.0.0/16".parse().unwrap(), "10.1.0.0/16".parse().unwrap());
        more.policies.push(KernelPolicy {
            source: other.0,
            destination: other.1,
            ..policy(PolicyDirection::In, 3, true)
        });
        receiving.window.accept(20).unwrap();
        for (list, count) in [(more, 2), (snapshot(both()), 1)] {
            tunnels.follow(&list, &store, 3);
            let now = tunnels.inbound().next().unwrap().association.clone();
            assert_eq!(now.selectors.len(), count);
            assert!(now.window.accept(20).is_err(), "received before");
            receiving.common.counters.add(1, 1);
            assert_eq!(now.common.counters.packets(), receiving.common.counters.packets());
        }

        // Keys are being replaced: the new SA sends and both receive; then the old ones are
        // deleted. The kernel lists the newest first.
        let mut four = vec![association(0x2001, NEAR, FAR), association(0x2002, FAR, NEAR)];
        four.extend(both());
        tunnels.follow(&snapshot(four.clone()), &store, 3);
        let spi = |tunnels: &Tunnels| {
            tunnels.outbound().next().unwrap().map(|it| it.association.common.spi)
        };
        assert_eq!((spi(&tunnels), tunnels.inbound().count()), (Some(0x2001), 2));
        tunnels.follow(&snapshot(four[..2].to_vec()), &store, 3);
        assert_eq!((spi(&tunnels), tunnels.inbound().count()), (Some(0x2001), 1));
        // Nothing is left, so packets that a policy protects cannot be sent.
        tunnels.follow(&snapshot(vec![]), &store, 3);
        assert_eq!(spi(&tunnels), None);
        assert_eq!(tunnels.policies()[0].decision, Decision::Protect(3));
    }

    /// Manual SAs may share a key, under which nonces of the two directions could meet.
    #[test]
    fn a_key_serves_one_association_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut tunnels = Tunnels::default();
        let key = || association(0x1001, NEAR, FAR).aead;
        let near = || association(0x1001, NEAR, FAR);
        let reverse = || Association { aead: key(), ..association(0x1002, FAR, NEAR) };
        tunnels.follow(&snapshot(vec![near(), reverse()]), &store, 0);
        let counts = |tunnels: &Tunnels| {
            (tunnels.outbound().flatten().count(), tunnels.inbound().count(), tunnels.left)
        };
        assert_eq!(counts(&tunnels), (1, 0, 1));
        let sending = tunnels.outbound().flatten().next().unwrap().association.clone();
        // The same key under another SPI goes on with other IVs; the other direction stays refused.
        let other = || Association { aead: key(), ..association(0x2001, NEAR, FAR) };
        tunnels.follow(&snapshot(vec![other()]), &store, 0);
        assert_eq!(counts(&tunnels), (1, 0, 0));
        let next = tunnels.outbound().flatten().next().unwrap().association.clone();
        assert_ne!(next.iv_offset, sending.iv_offset);
        tunnels.follow(&snapshot(vec![reverse()]), &store, 0);
        assert_eq!(counts(&tunnels), (0, 0, 1));
    }

    #[test]
    fn unsupported_association_is_left_to_the_kernel_but_never_sent_in_clear() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut tunnels = Tunnels::default();
        let mut transport = association(0x1001, NEAR, FAR);
        transport.tunnel = false;
        let mut other = association(0x1003, NEAR, FAR);
        other.aead = Some((
            "rfc7539esp(chacha20,poly1305)".to_owned(),
            128,
            Key(Zeroizing::new(vec![0; 36])),
        ));
        let mut all = snapshot(vec![transport, other]);
        all.policies.insert(0, policy(PolicyDirection::Out, 1, false));
        all.policies.push(KernelPolicy { narrower: true, ..policy(PolicyDirection::Out, 0, true) });
        all.policies.push(KernelPolicy { bound: true, ..policy(PolicyDirection::Out, 0, true) });
        // An SA that is still being negotiated has no keys yet.
        all.associations.push(Association { aead: None, ..association(0x1005, NEAR, FAR) });
        tunnels.follow(&all, &store, 0);
        let decisions: Vec<_> = tunnels.policies().iter().map(|it| it.decision).collect();
        let last = [Decision::Protect(0), Decision::Bypass];
        assert_eq!(decisions[..2], [Decision::Discard; 2], "by ports; transport mode");
        assert_eq!(decisions[2..], last);
        assert_eq!((tunnels.outbound().flatten().count(), tunnels.left), (0, 3));
    }

    #[test]
    fn association_that_the_kernel_would_choose_sends() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut tunnels = Tunnels::default();
        let made = |spi, added| Association {
            current: Current { added, ..Current::default() },
            ..association(spi, NEAR, FAR)
        };
        let mut all = snapshot(vec![made(0x1003, 20), made(0x1002, 30), made(0x1001, 30)]);
        let spi = |tunnels: &Tunnels| {
            tunnels.outbound().next().unwrap().map(|it| it.association.common.spi)
        };
        tunnels.follow(&all, &store, 0);
        assert_eq!(spi(&tunnels), Some(0x1002), "the newest that is listed first");
        all.policies[1].templates[0].spi = 0x1003;
        tunnels.follow(&all, &store, 0);
        assert_eq!(spi(&tunnels), Some(0x1003), "the one that the policy names");
        // Of two policies with the same priority the older one applies, which is listed last.
        let block =
            KernelPolicy { action: PolicyAction::Block, ..policy(PolicyDirection::Out, 3, true) };
        all.policies.insert(0, block);
        tunnels.follow(&all, &store, 0);
        assert_eq!(tunnels.policies()[0].decision, Decision::Protect(0));
    }
}
