//! Checks the published order of costs (PowerSave): re > ipsec > netflow > ipv4.

use super::report::{Added, Cost, Order, OrderVerdict};

/// Applications of the paper, most expensive first. IPsec there means encryption.
const PUBLISHED: [&str; 4] = ["re", "ipsec-send", "netflow", "ipv4"];

impl Order {
    /// Compares the measured order with the published one; `None` unless all four were measured.
    pub fn compare(ipv4: &Cost, applications: &[Added]) -> Option<Self> {
        let with = applications.iter().map(|it| (it.name, it.cost.cycles_per_packet));
        let all = with.chain([("ipv4", ipv4.cycles_per_packet)]);
        let mut all: Vec<_> = all.filter(|(name, _)| PUBLISHED.contains(name)).collect();
        if all.len() != PUBLISHED.len() {
            return None;
        }
        all.sort_by(|(_, a), (_, b)| b.median.total_cmp(&a.median));
        let measured: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        let apart = all.windows(2).all(|pair| pair[0].1.lower_quartile > pair[1].1.upper_quartile);
        let verdict = match (measured == PUBLISHED, apart) {
            (true, true) => OrderVerdict::Meets,
            (true, false) => OrderVerdict::Unsure,
            (false, _) => OrderVerdict::Differs,
        };
        Some(Self { measured, published: PUBLISHED, verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn cost(cycles: f64) -> Cost {
        let cycles_per_packet =
            Sample::summarise(vec![cycles - 1.0, cycles, cycles + 1.0]).unwrap();
        Cost {
            cycles_per_packet,
            cycles_per_byte: 0.0,
            nanoseconds_per_packet: 0.0,
            rate_gbps: 0.0,
        }
    }

    fn verdict(re: f64, ipsec: f64, netflow: f64) -> Option<OrderVerdict> {
        let added = |(name, cycles)| Added {
            name,
            cost: cost(cycles),
            added_cycles_per_packet: cost(cycles).cycles_per_packet,
            added_nanoseconds_per_packet: 0.0,
            nodes: Vec::new(),
            counted: serde_json::Value::Null,
        };
        let applications = [("netflow", netflow), ("ipsec-send", ipsec), ("re", re)].map(added);
        let order = Order::compare(&cost(40.0), &applications);
        assert_eq!(Order::compare(&cost(40.0), &applications[1..]), None, "one is missing");
        order.map(|order| order.verdict)
    }

    #[test]
    fn order_is_compared_with_the_published_one() {
        assert_eq!(verdict(900.0, 400.0, 100.0), Some(OrderVerdict::Meets));
        assert_eq!(verdict(300.0, 400.0, 100.0), Some(OrderVerdict::Differs));
        assert_eq!(verdict(900.0, 400.0, 30.0), Some(OrderVerdict::Differs));
        assert_eq!(verdict(400.5, 400.0, 100.0), Some(OrderVerdict::Unsure));
    }
}
