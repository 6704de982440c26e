//! Local ends of tunnels that are no address of this machine.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

/// Source of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SetBy {
    /// An `[[ipsec_tunnel]]`.
    Configuration,
    /// The kernel's SAs, which an IKE daemon makes.
    Kernel,
}

/// Tunnel end: the tunnel's name, the address, and its source.
type End = (String, IpAddr, SetBy);

/// The ends that are missing now.
#[derive(Default)]
pub(super) struct MissingEnds(BTreeSet<End>);

impl MissingEnds {
    /// Compares the ends of tunnels with the addresses of this machine, and logs the differences.
    pub fn update(&mut self, ends: impl Iterator<Item = End>, own: &HashSet<IpAddr>) {
        let ends: BTreeSet<End> = ends.collect();
        let missing = ends.iter().filter(|(_, at, _)| !own.contains(at)).cloned().collect();
        let before = std::mem::replace(&mut self.0, missing);
        for end in self.0.difference(&before) {
            tracing::warn!("{}", complaint(end));
        }
        for (name, at, _) in before.difference(&self.0).filter(|end| ends.contains(end)) {
            tracing::info!("ipsec {name}: its local end {at} is an address of this machine now");
        }
    }

    /// Returns a warning if this end of a tunnel or of an SA of the kernel is missing.
    pub fn warning(&self, name: &str, at: IpAddr, set_by: SetBy) -> Option<String> {
        // SAs of the kernel may share a name.
        let is_it = |(of, its, by): &&End| of == name && *its == at && *by == set_by;
        self.0.iter().find(is_it).map(|_| explain(at, set_by))
    }

    /// Returns a message for each missing end.
    pub fn complaints(&self) -> Vec<String> {
        self.0.iter().map(complaint).collect()
    }
}

fn complaint((name, at, set_by): &End) -> String {
    let what = match set_by {
        SetBy::Configuration => "local =",
        SetBy::Kernel => "the local end of the kernel's SA,",
    };
    format!("ipsec {name}: {what} {}", explain(*at, *set_by))
}

fn explain(at: IpAddr, set_by: SetBy) -> String {
    let length = if at.is_ipv4() { 32 } else { 128 };
    let or = match set_by {
        SetBy::Configuration => "name an address of this machine",
        SetBy::Kernel => "have the IKE daemon use an address of this machine",
    };
    format!(
        "{at} is no address of this machine, so the kernel does not answer for it: packets of the \
         other end arrive only if its network routes them here; `ip address add {at}/{length} dev \
         INTERFACE`, or {or}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_missing_until_it_is_an_address_of_this_machine() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let (here, there) = (address("192.0.2.1"), address("2001:db8::1"));
        let of_file = SetBy::Configuration;
        let ends =
            || [("a".to_owned(), here, of_file), ("b".to_owned(), there, of_file)].into_iter();
        let mut missing = MissingEnds::default();
        missing.update(ends(), &HashSet::from([here]));
        assert_eq!(missing.warning("a", here, of_file), None);
        let warning = missing.warning("b", there, of_file).unwrap();
        assert!(warning.contains("`ip address add 2001:db8::1/128 dev INTERFACE`"), "{warning}");
        assert_eq!(missing.complaints(), [format!("ipsec b: local = {warning}")]);
        missing.update(ends(), &HashSet::from([here, there]));
        assert_eq!((missing.warning("b", there, of_file), missing.complaints().len()), (None, 0));
        // A removed tunnel is not reported as missing.
        missing.update(ends(), &HashSet::new());
        missing.update(ends().take(1), &HashSet::new());
        assert_eq!(missing.complaints().len(), 1);
    }

    /// Such an SA has no key `local` in the configuration.
    #[test]
    fn an_sa_of_the_kernel_gets_advice_that_it_can_follow() {
        let at = "192.0.2.1".parse().unwrap();
        let mut missing = MissingEnds::default();
        missing.update([("k".to_owned(), at, SetBy::Kernel)].into_iter(), &HashSet::new());
        assert_eq!(missing.warning("k", at, SetBy::Configuration), None);
        let warning = missing.warning("k", at, SetBy::Kernel).unwrap();
        assert!(warning.ends_with("or have the IKE daemon use an address of this machine"));
        let complaint = missing.complaints().join("");
        assert!(
            complaint.starts_with("ipsec k: the local end of the kernel's SA, 192.0.2.1 is no")
        );
        assert!(!complaint.contains("local ="), "{complaint}");
    }
}
