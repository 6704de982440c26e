//! IPsec as the control thread sees it: tunnels from the configuration or from the kernel,
//! their sequence numbers on disk, the end of their keys, and what they counted.

mod keys;
mod store;
mod tunnel;

use crate::application::Application;
use crate::config::{IpsecSettings, KeySource, PolicyAction};
use crate::router::RouterError;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use store::Store;
use tunnel::{Receiving, Sending};
use wattline_dataplane::apps::esp;
use wattline_dataplane::apps::esp::database::{Contents, Publisher};
use wattline_dataplane::apps::esp::policy::{Decision, Policy, Prefixes};
use wattline_dataplane::feature::Feature;

/// How often numbers are written down and ages looked at. A stretch of reserved numbers lasts
/// longer than this at any rate that a worker reaches.
const LOOK: Duration = Duration::from_millis(500);
/// ICMP errors of tunnels per second and worker, as of the router itself.
const ICMP_RATE: u32 = 1000;
const ICMP_BURST: u32 = 50;

/// The application.
pub struct Ipsec {
    publisher: Publisher,
    tunnels: Vec<(Sending, Receiving)>,
    due: Instant,
}

impl Ipsec {
    /// Tunnels and policies of a configuration; nothing where it has none.
    ///
    /// # Errors
    /// All that is wrong with keys and with what was written down of them.
    pub fn new(settings: &IpsecSettings) -> Result<Option<Self>, RouterError> {
        if settings.tunnels.is_empty() && settings.policies.is_empty() && !settings.kernel {
            return Ok(None);
        }
        let store = Store::open(&settings.state).map_err(RouterError::Unfit)?;
        let (mut tunnels, mut errors) = (Vec::new(), Vec::new());
        let mut keys: HashMap<u64, String> = HashMap::new();
        for (place, tunnel) in settings.tunnels.iter().enumerate() {
            let policies: Vec<_> = (settings.policies.iter())
                .filter(|policy| policy.action == PolicyAction::Protect(place))
                .map(|policy| (policy.source, policy.destination))
                .collect();
            match tunnel::from_settings(tunnel, &store, &policies) {
                Ok((sending, receiving, fingerprints)) => {
                    for (fingerprint, key) in fingerprints.into_iter().zip(["key_in", "key_out"]) {
                        let name = format!("{key} of tunnel {}", tunnel.name);
                        // With one key both ways every nonce would be used twice.
                        if let Some(other) = keys.insert(fingerprint, name.clone()) {
                            errors.push(format!(
                                "{name} is the same as {other}: each direction needs a key of its own"
                            ));
                        }
                    }
                    tunnels.push((sending, receiving));
                }
                Err(error) => errors.push(error),
            }
            for (key, source) in [("key_in", &tunnel.key_in), ("key_out", &tunnel.key_out)] {
                if matches!(source, KeySource::Inline(_)) {
                    tracing::warn!(
                        "[[ipsec_tunnel]] {}: {key} stands in the configuration itself: whoever \
                         reads that can read all packets; use {key}_file",
                        tunnel.name
                    );
                }
            }
        }
        if !errors.is_empty() {
            return Err(RouterError::Unfit(errors.join("\n")));
        }
        let publisher = Publisher::new();
        let policies = (settings.policies.iter())
            .map(|policy| Policy {
                prefixes: Prefixes { source: policy.source, destination: policy.destination },
                decision: match policy.action {
                    PolicyAction::Protect(tunnel) => Decision::Protect(tunnel as u16),
                    PolicyAction::Bypass => Decision::Bypass,
                    PolicyAction::Discard => Decision::Discard,
                },
            })
            .collect();
        publisher.publish(Contents {
            outbound: tunnels.iter().map(|it| Some(it.0.association.clone())).collect(),
            inbound: tunnels.iter().map(|it| it.1.association.clone()).collect(),
            policies,
            kernel_has_more: settings.kernel,
            addresses: Vec::new(),
        });
        Ok(Some(Self { publisher, tunnels, due: Instant::now() }))
    }
}

impl Application for Ipsec {
    fn name(&self) -> &'static str {
        "ipsec"
    }

    fn features(&mut self, _worker: u16) -> Vec<Feature> {
        esp::features(&self.publisher, ICMP_RATE, ICMP_BURST)
    }

    fn tick(&mut self, now: Instant) -> Instant {
        if now >= self.due {
            for (sending, receiving) in &mut self.tunnels {
                sending.tick(now);
                receiving.tick(now);
            }
            self.due = now + LOOK;
        }
        self.due
    }

    fn stats(&self) -> serde_json::Value {
        let tunnels: Vec<_> = (self.tunnels.iter())
            .map(|(sending, receiving)| {
                serde_json::json!({
                    "name": sending.association.common.name,
                    "outbound": sending.stats(),
                    "inbound": receiving.stats(),
                })
            })
            .collect();
        serde_json::json!({ "tunnels": tunnels })
    }

    fn tunnel_ends(&self) -> Vec<IpAddr> {
        self.tunnels.iter().map(|it| it.1.association.common.local).collect()
    }

    fn finish(&mut self) {
        for (sending, receiving) in &mut self.tunnels {
            receiving.tick(Instant::now());
            sending.finish();
        }
    }
}
