//! The access lists of all ports, as workers read them.

use super::compiled::{Compiled, Match};
use super::counts::Counts;
use super::rule::{Action, Rule};
use super::subject::Subject;
use std::collections::HashMap;
use std::sync::Arc;
use wattline_dataplane::drop_reason::DropReason;

/// A rule with its counts.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    pub rule: Arc<Rule>,
    pub counts: Counts,
    /// Number of its name among [`Lists::names`], from 1; 0 if there are too many names.
    number: u16,
}

/// Access lists by port; replaced as a whole.
#[derive(Debug)]
pub(super) struct Lists {
    /// All rules, in the order of the configuration.
    pub rules: Vec<Counted>,
    /// By port, counts of packets that no rule matched; shared with later lists.
    pub unmatched: Vec<Counts>,
    by_port: Vec<Option<Arc<List>>>,
    /// Names of all rules since the start, so that a number never changes its meaning.
    names: Vec<Arc<str>>,
}

/// The rules that apply to a port.
#[derive(Debug)]
struct List {
    compiled: Compiled,
    /// By position in `compiled`, with the number of the rule.
    entries: Box<[(Action, Counts, u16)]>,
}

impl Lists {
    /// Compiles rules for this number of ports and workers. Rules that `before` also has keep their
    /// counts.
    pub fn new(rules: &[Rule], ports: usize, workers: u16, before: Option<&Self>) -> Self {
        let mut known: Vec<&Counted> = before.iter().flat_map(|it| &it.rules).collect();
        let mut names = before.map_or_else(Vec::new, |before| before.names.clone());
        let counted = |rule: &Rule| match known.iter().position(|it| *it.rule == *rule) {
            // Each only once: a list may contain a rule twice.
            Some(place) => known.swap_remove(place).clone(),
            None => Counted {
                rule: Arc::new(rule.clone()),
                counts: Counts::new(workers),
                number: number_of(&rule.name, &mut names),
            },
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
                let entries =
                    held().map(|it| (it.rule.action, it.counts.clone(), it.number)).collect();
                Arc::new(List { compiled: Compiled::new(&list), entries })
            });
            Some(list.clone())
        };
        let by_port = (0..ports).map(of_port).collect();
        let mut unmatched = before.map_or_else(Vec::new, |before| before.unmatched.clone());
        unmatched.resize_with(ports.max(unmatched.len()), || Counts::new(workers));
        Self { rules, unmatched, by_port, names }
    }

    /// Keeps the list that a port had `before`: the port is removed, and still served for a moment.
    pub fn keep(&mut self, port: usize, before: &Self) {
        let (Some(list), Some(Some(had))) = (self.by_port.get_mut(port), before.by_port.get(port))
        else {
            return;
        };
        *list = Some(had.clone());
    }

    /// Restarts the count of unmatched packets of a port whose place another port has taken.
    pub fn begin(&mut self, port: usize, workers: u16) {
        if let Some(counts) = self.unmatched.get_mut(port) {
            *counts = Counts::new(workers);
        }
    }

    /// Returns true if a port has a list.
    pub fn has(&self, port: usize) -> bool {
        self.by_port.get(port).is_some_and(Option::is_some)
    }

    /// Returns the name of a rule by its number, also of a removed rule.
    pub fn name(&self, number: u16) -> Option<&str> {
        self.names.get(usize::from(number.checked_sub(1)?)).map(|name| &**name)
    }

    /// Judges and counts a packet that arrived on a port; `worker` is the number of the calling
    /// worker.
    ///
    /// # Errors
    /// Returns the reason to drop the packet, and the number of the rule; 0 if none matched.
    #[inline]
    pub fn judge(
        &self,
        port: usize,
        packet: &[u8],
        bytes: u64,
        worker: u16,
    ) -> Result<(), (DropReason, u16)> {
        let Some(Some(list)) = self.by_port.get(port) else { return Ok(()) };
        let found = Subject::of(packet).map_or(Match::None, |it| list.compiled.first_match(&it));
        let (place, certain) = match found {
            Match::Rule(place) => (place, true),
            Match::Unreadable(place) => (place, false),
            Match::None => (usize::MAX, true),
        };
        match list.entries.get(place) {
            Some((_, _, number)) if !certain => Err((DropReason::AclUnreadable, *number)),
            Some((action, counts, number)) => {
                counts.add(worker, bytes);
                match action {
                    Action::Permit => Ok(()),
                    Action::Deny => Err((DropReason::AclDenied, *number)),
                }
            }
            None => {
                self.unmatched.iter().skip(port).take(1).for_each(|it| it.add(worker, bytes));
                Err((DropReason::AclDenied, 0))
            }
        }
    }
}

/// Returns the number of a name, which is added if new; 0 if there is no room for it.
fn number_of(name: &str, names: &mut Vec<Arc<str>>) -> u16 {
    let place = names.iter().position(|it| **it == *name).unwrap_or(names.len());
    let number = u16::try_from(place + 1).unwrap_or(0);
    if place == names.len() && number > 0 {
        names.push(name.into());
    }
    number
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
    fn kept_rules_keep_their_counts_and_others_start_at_zero() {
        let udp = &frame4(MAC_A, 64, &[0, 7, 0, 53, 0, 8, 0, 0])[14..];
        let (deny, permit) = (rule(Action::Deny, 6, &[]), rule(Action::Permit, 17, &[]));
        let lists = Lists::new(&[deny.clone(), permit.clone()], 2, 2, None);
        assert!(lists.judge(1, udp, 28, 0).is_ok() && lists.judge(0, udp, 28, 1).is_ok());
        assert_eq!(lists.rules[1].counts.total(), (2, 56));
        let later = Lists::new(&[permit, rule(Action::Deny, 17, &[])], 2, 2, Some(&lists));
        assert!(later.judge(0, udp, 28, 0).is_ok());
        assert_eq!(later.rules[0].counts.total(), (3, 84));
        assert_eq!(later.rules[1].counts.total(), (0, 0));
        // Workers that still have the former list use the same counts.
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

    #[test]
    fn denying_rule_is_named_by_a_number_that_never_changes_its_meaning() {
        let udp = &frame4(MAC_A, 64, &[0, 7, 0, 53, 0, 8, 0, 0])[14..];
        let named = |name: &str, protocol| Rule {
            name: name.to_owned(),
            ..rule(Action::Deny, protocol, &[0])
        };
        let first = Lists::new(&[named("one", 6), named("two", 17)], 1, 1, None);
        let (reason, number) = first.judge(0, udp, 28, 0).unwrap_err();
        assert_eq!((reason, first.name(number)), (DropReason::AclDenied, Some("two")));
        // Rules are removed and added: workers may still use the former list.
        let second = Lists::new(&[named("three", 17)], 1, 1, Some(&first));
        let (_, later) = second.judge(0, udp, 28, 0).unwrap_err();
        assert_eq!((second.name(number), second.name(later)), (Some("two"), Some("three")));
        let third = Lists::new(&[named("two", 6)], 1, 1, Some(&second));
        assert_eq!(third.judge(0, udp, 28, 0).unwrap_err(), (DropReason::AclDenied, 0));
        assert_eq!((third.name(later), third.name(0), third.name(9)), (Some("three"), None, None));
        // A later fragment may match any rule with ports. Reloads with other names do not grow the
        // list for ever.
        let mut names: Vec<Arc<str>> = vec!["any".into(); usize::from(u16::MAX)];
        assert_eq!((number_of("new", &mut names), names.len()), (0, usize::from(u16::MAX)));
        assert_eq!(number_of("any", &mut names), 1);
        let web = Rule { destination_ports: vec![80..=80], ..named("web", 17) };
        let lists = Lists::new(&[web], 1, 1, None);
        let mut fragment = udp.to_vec();
        fragment.truncate(20);
        let refusal = lists.judge(0, &fragment, 20, 0).unwrap_err();
        assert_eq!((refusal.0, lists.name(refusal.1)), (DropReason::AclUnreadable, Some("web")));
    }
}
