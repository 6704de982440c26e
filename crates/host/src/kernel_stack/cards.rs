//! Packets by receive queue, as counted by the card's driver; otherwise by interface.

use super::text::Text;
use wattline_linux::card_statistics::CardStatistics;
use wattline_linux::sysfs::Tree;

/// One interface.
pub(super) struct Card {
    interface: String,
    tree: Tree,
    source: Source,
    /// By queue: packets that arrived and packets dropped, since the start.
    sums: Vec<(u64, u64)>,
    last: Vec<Option<(u64, u64)>>,
    values: Vec<u64>,
}

enum Source {
    /// The driver's own statistics; by queue, the columns of its packets and drops.
    Driver(Option<CardStatistics>, Vec<Columns>),
    /// `/sys/class/net/*/statistics`: the whole interface, in the first sum. Packets received, and
    /// packets that the card had no room for.
    Interface(Text, Text),
}

/// Columns of a queue's figures in the statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Columns {
    packets: Option<usize>,
    drops: Option<usize>,
}

impl Card {
    /// Opens the counters; the second value is the reason if packets are not counted by queue.
    pub fn open(tree: &Tree, interface: &str, queues: u32) -> (Self, Option<String>) {
        let (source, note) = source(tree, interface, queues);
        let count = queues.max(1) as usize;
        let mut card = Self {
            interface: interface.to_owned(),
            tree: tree.clone(),
            source,
            sums: vec![(0, 0); count],
            last: vec![None; count],
            values: Vec::new(),
        };
        card.look();
        (card, note)
    }

    /// Returns the packets that arrived at a queue since the start, dropped ones included, and the
    /// dropped ones. If only the interface counts, each queue gets an equal share: counted at a
    /// single queue, the packets would leave the other cores looking idle under any load.
    pub fn queue(&self, queue: u32) -> (u64, u64) {
        match self.source {
            Source::Driver(..) => self.sums.get(queue as usize).copied().unwrap_or_default(),
            Source::Interface(..) => {
                let (arrivals, drops) = self.sums[0];
                let count = self.sums.len() as u64;
                (part(arrivals, u64::from(queue), count), part(drops, u64::from(queue), count))
            }
        }
    }

    /// Adds the counts since the last look; nothing while the interface does not answer.
    pub fn look(&mut self) {
        match &mut self.source {
            Source::Driver(statistics, columns) => {
                match statistics {
                    Some(statistics) => {
                        if statistics.read(&mut self.values).is_err() {
                            return;
                        }
                    }
                    None => {
                        let lines = lines(&self.tree, &self.interface);
                        self.values = lines.into_iter().map(|(_, value)| value).collect();
                    }
                }
                for (queue, columns) in columns.iter().enumerate() {
                    let value = |place: Option<usize>| self.values.get(place?).copied();
                    let Some(packets) = value(columns.packets) else { continue };
                    let drops = value(columns.drops).unwrap_or(0);
                    add(&mut self.sums[queue], &mut self.last[queue], packets, drops);
                }
            }
            Source::Interface(packets, missed) => {
                let Some(packets) = packets.number() else { return };
                let drops = missed.number().unwrap_or(0);
                add(&mut self.sums[0], &mut self.last[0], packets, drops);
            }
        }
    }
}

/// Returns a queue's share of a sum over `count` queues: the first queues get the remainder. A
/// share never decreases while the sum grows, and all shares add up to the sum.
fn part(sum: u64, queue: u64, count: u64) -> u64 {
    if queue >= count {
        return 0;
    }
    sum / count + u64::from(queue < sum % count)
}

/// Adds the growth of counters; counters that go back (a reloaded driver) restart.
fn add(sum: &mut (u64, u64), last: &mut Option<(u64, u64)>, packets: u64, drops: u64) {
    if let Some((packets_before, drops_before)) = *last {
        let dropped = drops.saturating_sub(drops_before);
        sum.0 = sum.0.saturating_add(packets.saturating_sub(packets_before) + dropped);
        sum.1 = sum.1.saturating_add(dropped);
    }
    *last = Some((packets, drops));
}

fn source(tree: &Tree, interface: &str, queues: u32) -> (Source, Option<String>) {
    let mut statistics = None;
    let names: Vec<String> = if tree.is_live() {
        statistics = CardStatistics::open(interface).ok();
        statistics.as_ref().map(|one| one.names().to_vec()).unwrap_or_default()
    } else {
        lines(tree, interface).into_iter().map(|(name, _)| name).collect()
    };
    let columns: Vec<Columns> = (0..queues).map(|queue| columns(&names, queue)).collect();
    if columns.iter().all(|columns| columns.packets.is_none()) {
        let note = format!(
            "arrivals: the driver of {interface} counts no packets by queue; its {queues} queues \
             show equal parts of the interface's count"
        );
        let file =
            |name: &str| Text::new(tree, &format!("/sys/class/net/{interface}/statistics/{name}"));
        let source = Source::Interface(file("rx_packets"), file("rx_missed_errors"));
        return (source, (queues > 1).then_some(note));
    }
    (Source::Driver(statistics, columns), None)
}

/// Returns the statistics of a recorded machine: a name and a value on each line.
fn lines(tree: &Tree, interface: &str) -> Vec<(String, u64)> {
    let text = tree.text(format!("/ethtool/{interface}/statistics")).unwrap_or_default();
    let pair = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.trim_end_matches(':').to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// Finds the columns of a receive queue's figures. Names are the drivers' own: `rx_queue_3_packets`
/// (igb, igc, ixgbe, ice, virtio_net), `rx-3.packets` (i40e), `rx3_packets` (mlx5, nfp),
/// `queue_3_rx_cnt` (ena), `[3]: rx_ucast_packets` (bnxt_en), `rx_queue_3_drops`.
fn columns(names: &[String], queue: u32) -> Columns {
    let place = |patterns: &[String]| {
        patterns.iter().find_map(|pattern| names.iter().position(|name| name == pattern))
    };
    let packets = [
        format!("rx_queue_{queue}_packets"),
        format!("rx{queue}_packets"),
        format!("rx-{queue}.packets"),
        format!("rx-{queue}.rx_packets"),
        format!("queue_{queue}_rx_cnt"),
        format!("[{queue}]: rx_ucast_packets"),
    ];
    let drops = [
        format!("rx_queue_{queue}_drops"),
        format!("rx{queue}_drops"),
        format!("[{queue}]: rx_discards"),
    ];
    Columns { packets: place(&packets), drops: place(&drops) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_name_their_queues_each_in_its_own_way() {
        for (packets, drops) in [
            ("rx_queue_11_packets", Some("rx_queue_11_drops")),
            ("rx11_packets", Some("rx11_drops")),
            ("rx-11.packets", None),
            ("queue_11_rx_cnt", None),
            ("[11]: rx_ucast_packets", Some("[11]: rx_discards")),
        ] {
            let names: Vec<String> = ["rx_packets", "rx_queue_1_packets", "rx1_packets", packets]
                .into_iter()
                .chain(drops)
                .map(str::to_owned)
                .collect();
            let expected = Columns { packets: Some(3), drops: drops.map(|_| 4) };
            assert_eq!(columns(&names, 11), expected, "{packets}");
        }
        assert_eq!(columns(&["rx_queue_1_packets".into()], 2), Columns::default());
    }
}
