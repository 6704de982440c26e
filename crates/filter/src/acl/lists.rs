//! The access lists of all ports, as workers read them.

use super::compiled::{Compiled, Match};
use super::counts::Counts;
use super::rule::{Action, Rule};
use super::subject::Subject;
use std::collections::HashMap;
use std::sync::Arc;
use wattline_dataplane::drop_reason::DropReason;

/// A rule and what it has matched.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    pub rule: Arc<Rule>,
    pub counts: Counts,
}

/// Access lists by port; replaced as a whole.
#[derive(Debug)]
pub(super) struct Lists {
    /// All rules, in the order of the configuration.
    pub rules: Vec<Counted>,
    /// By port, what no rule has matched; shared with later lists.
    pub unmatched: Vec<Counts>,
    by_port: Vec<Option<Arc<List>>>,
}

/// The rules that hold for a port.
#[derive(Debug)]
struct List {
    compiled: Compiled,
    /// By position in `compiled`.
    entries: Box<[(Action, Counts)]>,
}

impl Lists {
    /// Compiles rules for so many ports and workers. Rules that `before` has as well go on counting.
    pub fn new(rules: &[Rule], ports: usize, workers: u16, before: Option<&Self>) -> Self {
        let mut known: Vec<&Counted> = before.iter().flat_map(|it| &it.rules).collect();
        let counted = |rule: &Rule| match known.iter().position(|it| *it.rule == *rule) {
            // Each only once: a rule may stand in a list twice.
            Some(place) => known.swap_remove(place).clone(),
            None => Counted { rule: Arc::new(rule.clone()), counts: Counts::new(workers) },
        };
        let rules: Vec<Counted> = rules.iter().map(counted).collect();
        let mut compiled: HashMap<Vec<usize>, Arc<List>> = HashMap::new();
        let of_port = |port: usize| {
            let holding: Vec<usize> =
                (0..rules.len()).filter(|rule| rules[*rule].rule.holds_on(port)).collect();
            if holding.is_empty() {
                return None;
            }
            let list = compiled.entry(holding).or_insert_with_key(|holding| {
                let held = || holding.iter().map(|rule| &rules[*rule]);
                let list: Vec<&Rule> = held().map(|it| &*it.rule).collect();
                let entries = held().map(|it| (it.rule.action, it.counts.clone())).collect();
                Arc::new(List { compiled: Compiled::new(&list), entries })
            });
            Some(list.clone())
        };
        let by_port = (0..ports).map(of_port).collect();
        let mut unmatched = before.map_or_else(Vec::new, |before| before.unmatched.clone());
        unmatched.resize_with(ports.max(unmatched.len()), || Counts::new(workers));
        Self { rules, unmatched, by_port }
    }

    /// Keeps the list that a port had `before`: it is removed, and still served for a moment.
    pub fn keep(&mut self, port: usize, before: &Self) {
        let (Some(list), Some(Some(had))) = (self.by_port.get_mut(port), before.by_port.get(port))
        else {
            return;
        };
        *list = Some(had.clone());
    }

    /// Begins to count anew what no rule of a port matches: it is another one.
    pub fn begin(&mut self, port: usize, workers: u16) {
        if let Some(counts) = self.unmatched.get_mut(port) {
            *counts = Counts::new(workers);
        }
    }

    /// Whether a port has a list.
    pub fn has(&self, port: usize) -> bool {
        self.by_port.get(port).is_some_and(Option::is_some)
    }

    /// Judges a packet that came in at a port, and counts it; `worker` is the calling worker's number.
    ///
    /// # Errors
    /// Returns the reason if the packet is to be dropped.
    #[inline]
    pub fn judge(
        &self,
        port: usize,
        packet: &[u8],
        bytes: u64,
        worker: u16,
    ) -> Result<(), DropReason> {
        let Some(Some(list)) = self.by_port.get(port) else { return Ok(()) };
        let found = Subject::of(packet).map_or(Match::None, |it| list.compiled.first_match(&it));
        let place = match found {
            Match::Rule(place) => place,
            Match::Unreadable => return Err(DropReason::AclUnreadable),
            Match::None => usize::MAX,
        };
        match list.entries.get(place) {
            Some((action, counts)) => {
                counts.add(worker, bytes);
                if *action == Action::Permit { Ok(()) } else { Err(DropReason::AclDenied) }
            }
            None => {
                self.unmatched.iter().skip(port).take(1).for_each(|it| it.add(worker, bytes));
                Err(DropReason::AclDenied)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_dataplane::testing::{MAC_A, frame4};

    fn rule(action: Action, protocol: u8, on: &[usize]) -> Rule {
        Rule {
            name: format!("{} {protocol}", action.name()),
            on: on.to_vec(),
            action,
            sources: Vec::new(),
            destinations: Vec::new(),
            protocols: vec![protocol],
            source_ports: Vec::new(),
            destination_ports: Vec::new(),
        }
    }

    #[test]
    fn rules_that_stay_go_on_counting_and_others_begin_anew() {
        let udp = &frame4(MAC_A, 64, &[0, 7, 0, 53, 0, 8, 0, 0])[14..];
        let (deny, permit) = (rule(Action::Deny, 6, &[]), rule(Action::Permit, 17, &[]));
        let lists = Lists::new(&[deny.clone(), permit.clone()], 2, 2, None);
        assert!(lists.judge(1, udp, 28, 0).is_ok() && lists.judge(0, udp, 28, 1).is_ok());
        assert_eq!(lists.rules[1].counts.total(), (2, 56));
        let later = Lists::new(&[permit, rule(Action::Deny, 17, &[])], 2, 2, Some(&lists));
        assert!(later.judge(0, udp, 28, 0).is_ok());
        assert_eq!(later.rules[0].counts.total(), (3, 84));
        assert_eq!(later.rules[1].counts.total(), (0, 0));
        // Workers that still have the former list count into the same.
        assert!(lists.judge(0, udp, 28, 1).is_ok());
        assert_eq!(later.rules[0].counts.total(), (4, 112));
    }

    #[test]
    fn unmatched_packet_is_dropped_only_under_a_list() {
        let udp = &frame4(MAC_A, 64, &[0, 7, 0, 53, 0, 8, 0, 0])[14..];
        let lists = Lists::new(&[rule(Action::Permit, 6, &[1])], 2, 1, None);
        assert_eq!([lists.has(0), lists.has(1), lists.has(2)], [false, true, false]);
        assert!(lists.judge(0, udp, 28, 0).is_ok());
        assert!(lists.judge(1, udp, 28, 0).is_err());
        assert_eq!(lists.unmatched[1].total(), (1, 28));
        assert_eq!(lists.unmatched[0].total(), (0, 0));
        assert!(lists.judge(1, &[0; 20], 20, 0).is_err(), "no IP");
    }
}
