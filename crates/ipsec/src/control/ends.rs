//! Local ends of tunnels that are no address of this machine.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

/// An end: the name of the tunnel and its address.
type End = (String, IpAddr);

/// The ends that are missing now.
#[derive(Default)]
pub(super) struct MissingEnds(BTreeSet<End>);

impl MissingEnds {
    /// Compares the ends of tunnels with the addresses of this machine, and logs what has changed.
    pub fn look(&mut self, ends: impl Iterator<Item = End>, own: &HashSet<IpAddr>) {
        let ends: BTreeSet<End> = ends.collect();
        let missing = ends.iter().filter(|(_, at)| !own.contains(at)).cloned().collect();
        let before = std::mem::replace(&mut self.0, missing);
        for (name, at) in self.0.difference(&before) {
            tracing::warn!("ipsec {name}: local = {}", why(*at));
        }
        for (name, at) in before.difference(&self.0).filter(|end| ends.contains(end)) {
            tracing::info!("ipsec {name}: local = {at} is an address of this machine now");
        }
    }

    /// What is to be said of the end of a tunnel, if it is missing.
    pub fn warning(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, at)| why(*at))
    }

    /// A sentence for each of them.
    pub fn complaints(&self) -> Vec<String> {
        let told = |(name, at): &End| format!("ipsec {name}: local = {}", why(*at));
        self.0.iter().map(told).collect()
    }
}

fn why(at: IpAddr) -> String {
    let length = if at.is_ipv4() { 32 } else { 128 };
    format!(
        "{at} is no address of this machine: nobody answers for it, so that the packets of the other \
         end arrive only if its network routes them here; `ip address add {at}/{length} dev \
         INTERFACE`, or name an address of this machine"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_missing_until_it_is_an_address_of_this_machine() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let (here, there) = (address("192.0.2.1"), address("2001:db8::1"));
        let ends = || [("a".to_owned(), here), ("b".to_owned(), there)].into_iter();
        let mut missing = MissingEnds::default();
        missing.look(ends(), &HashSet::from([here]));
        assert_eq!(missing.warning("a"), None);
        let warning = missing.warning("b").unwrap();
        assert!(warning.contains("`ip address add 2001:db8::1/128 dev INTERFACE`"), "{warning}");
        assert_eq!(missing.complaints(), [format!("ipsec b: local = {warning}")]);
        missing.look(ends(), &HashSet::from([here, there]));
        assert_eq!((missing.warning("b"), missing.complaints().len()), (None, 0));
        // A tunnel that is gone is not missed.
        missing.look(ends(), &HashSet::new());
        missing.look(ends().take(1), &HashSet::new());
        assert_eq!(missing.complaints().len(), 1);
    }
}
