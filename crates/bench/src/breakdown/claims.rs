//! Claims of Liao and Bhuyan that a running kernel can confirm, judged by the receiving side.

use super::groups::Group;
use super::report::Breakdown;
use super::side::Side;
use wattline_report::{Basis, Check, Grounds, Verdict};

/// Smallest size of a call at which the paper calls the copy a major bottleneck.
const LARGE_BYTES: u32 = 256;
/// Number of bottlenecks in the paper: driver, copy, buffer release.
const MAJOR: usize = 3;
/// Share of the samples that must belong to a group.
const CLAIMED: f64 = 0.95;
/// Largest remaining share of a cost that counts as substantially reduced.
const REDUCED: f64 = 0.5;
/// Smallest number of samples; it determines a share of 5 % to one percent.
const LEAST_SAMPLES: u64 = 500;
const NOTE: &str = "shares of processor time by a software clock, not of retired cycles";

/// Judges each claim. A claim that these results cannot decide is not testable, with the reason.
pub(super) fn judge(results: &[Breakdown]) -> Vec<Check> {
    let sampled: Vec<&Breakdown> =
        results.iter().filter(|it| it.receive.samples >= LEAST_SAMPLES).collect();
    vec![grouped(&sampled), copied(&sampled), coalesced(&sampled)]
}

fn grouped(sampled: &[&Breakdown]) -> Check {
    let claimed = |it: &&Breakdown| 1.0 - share(&it.receive, Group::Unclaimed);
    let least = sampled.iter().map(claimed).min_by(f64::total_cmp);
    verdict(
        ("LI-027", "least share of the receiver's samples in a group"),
        least.map(|it| (it, it >= CLAIMED)).ok_or("a longer --seconds"),
        ("functions fall into eight groups", format!("at least {CLAIMED}")),
    )
}

/// The copy's share must rise from small calls to large ones, and be among the largest there.
fn copied(sampled: &[&Breakdown]) -> Check {
    let with = sampled.iter().filter(|it| it.offloads).map(|it| (it.io_bytes, &it.receive));
    let (large, small): (Vec<_>, Vec<_>) = with.partition(|(bytes, _)| *bytes >= LARGE_BYTES);
    let copy = |side: &Side| share(side, Group::Copy);
    let least = large.iter().map(|(_, side)| copy(side)).min_by(f64::total_cmp);
    let most = small.iter().map(|(_, side)| copy(side)).max_by(f64::total_cmp);
    let greater = |side: &Side| side.groups.iter().filter(|it| it.share > copy(side)).count();
    let major = large.iter().all(|(_, side)| greater(side) < MAJOR);
    verdict(
        ("LI-028", "the copy's least share from 256 bytes a call on, over its greatest below"),
        (least.zip(most).map(|(least, most)| (least / most, least > most && major)))
            .ok_or("--io with sizes below and from 256 bytes on, --offloads on, longer --seconds"),
        ("the copy grows into a major bottleneck", "above 1, one of three largest".to_owned()),
    )
}

fn coalesced(sampled: &[&Breakdown]) -> Check {
    let cost = |it: &Breakdown| {
        let protocols =
            it.receive.groups.iter().filter(|it| matches!(it.group, Group::Ip | Group::Tcp));
        protocols.map(|it| it.cpu_seconds_per_byte).sum::<f64>()
    };
    let at =
        |offloads, bytes| sampled.iter().find(|it| it.offloads == offloads && it.io_bytes == bytes);
    let sizes = sampled.iter().map(|it| it.io_bytes);
    let pairs = sizes.filter_map(|bytes| Some((bytes, at(true, bytes)?, at(false, bytes)?)));
    let largest = pairs.max_by_key(|(bytes, ..)| *bytes);
    verdict(
        ("LI-033", "IP and TCP of the receiver per byte, packets joined over not joined"),
        (largest.map(|(_, with, without)| cost(with) / cost(without)))
            .filter(|it| it.is_finite())
            .map(|it| (it, it <= REDUCED))
            .ok_or("--offloads both, longer --seconds"),
        ("substantially reduced by large receive offload", format!("at most {REDUCED}")),
    )
}

fn share(side: &Side, group: Group) -> f64 {
    side.groups.iter().filter(|it| it.group == group).map(|it| it.share).sum()
}

/// `found` is the figure with its verdict, or the options that would give a figure.
fn verdict(
    (claim, quantity): (&'static str, &str),
    found: Result<(f64, bool), &str>,
    (published, tolerance): (&str, String),
) -> Check {
    let (ours, meets) = match found {
        Ok((ours, meets)) => (format!("{ours:.3}"), meets),
        Err(needed) => (format!("not measured: needs {needed}"), false),
    };
    let mut check = Check::holds(&[claim], quantity, meets, ours, published)
        .on(Grounds::Measured)
        .basis(Basis::Predicted)
        .note(NOTE);
    check.tolerance = tolerance;
    if found.is_err() {
        check.verdict = Verdict::NotTestable;
    }
    check
}

#[cfg(test)]
mod tests {
    use super::super::Groups;
    use super::super::samples::{Counts, count};
    use super::super::side::side;
    use super::*;

    /// Returns the result of a receiver in one second, with these numbers of samples of driver,
    /// copy, buffers, TCP and a function of no group, as `perf script` writes them.
    fn recorded(io_bytes: u32, offloads: bool, samples: [usize; 5]) -> Breakdown {
        let functions =
            ["veth_poll", "rep_movs_alternative", "skb_release_data", "tcp_v4_rcv", "nobodys"];
        let line = |function: &str| format!("iperf3 200 [001] ffffffff81a00001 {function}\n");
        let text: String =
            functions.iter().zip(samples).map(|(it, times)| line(it).repeat(times)).collect();
        let (groups, _) = Groups::kernel_groups("6.12").unwrap();
        let ([counts], _) = count::<1>(&text, &groups, |_| Some(0));
        Breakdown {
            io_bytes,
            offloads,
            rate_bps: 1e9,
            rate_pps: 1e5,
            packet_mean_bytes: 1250.0,
            transmit: side(&Counts::default(), 1.0, 1e5, 1e8),
            receive: side(&counts, 1.0, 1e5, 1e8),
            events: Vec::new(),
            components: Vec::new(),
        }
    }

    fn verdicts(results: &[Breakdown]) -> Vec<(Verdict, String)> {
        judge(results).into_iter().map(|it| (it.verdict, it.ours)).collect()
    }

    #[test]
    fn recorded_samples_meet_the_claims() {
        let results = [
            recorded(64, true, [800, 200, 600, 400, 20]),
            recorded(4096, true, [600, 800, 500, 100, 40]),
            recorded(4096, false, [600, 500, 500, 400, 10]),
        ];
        let expected = ["0.980", "3.961", "0.246"].map(|it| (Verdict::Meets, it.to_owned()));
        assert_eq!(verdicts(&results), expected);
    }

    #[test]
    fn recorded_samples_miss_the_claims() {
        let results = [
            recorded(64, true, [200, 800, 400, 600, 200]),
            recorded(4096, true, [600, 300, 500, 600, 200]),
            recorded(4096, false, [600, 500, 500, 400, 10]),
        ];
        let expected = ["0.909", "0.375", "1.370"].map(|it| (Verdict::Differs, it.to_owned()));
        assert_eq!(verdicts(&results), expected);
    }

    #[test]
    fn claims_without_their_measurement_are_not_testable() {
        let large = recorded(4096, true, [600, 800, 500, 100, 40]);
        let few = recorded(64, true, [6, 8, 5, 1, 0]);
        let checks = judge(&[large, few]);
        assert_eq!(checks[0].verdict, Verdict::Meets);
        for (check, needed) in checks[1..].iter().zip(["below and from 256", "--offloads both"]) {
            assert_eq!(check.verdict, Verdict::NotTestable);
            assert!(check.ours.contains(needed), "{}", check.ours);
        }
        let none = judge(&[]);
        assert!(none.iter().all(|it| it.verdict == Verdict::NotTestable), "{none:?}");
    }
}
