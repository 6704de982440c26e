//! Flows stay in order while entries of indirection tables move.

use crate::common::{server, setting, simulate};
use wattline_traffic::Spec;
use wattline_units::Span;

const ENTRIES: u64 = 10_000;

/// The controller acts on every sample while bursts fill the queues, so that entries move away from
/// cores at which packets wait.
#[test]
fn ten_thousand_moved_entries_reorder_nothing() {
    let server = server("westmere-2010");
    let mut setting = setting(&server, "queue-length:c_up=0,c_down=0,q_h=6,q_l=5,batch=4");
    (setting.warmup, setting.duration) = (Span::ZERO, Span::from_millis(20));
    let traffic = Spec::parse("mmpp:3Mpps,ratio=20,high=500us,low=500us,size=64").unwrap();
    let report = simulate(&setting, traffic.build(1).unwrap().as_mut());
    println!(
        "{} changes of cores moved {} entries; {} of {} packets held, {:.1} us at most; {} out of order, {} \
         unless held",
        report.core_changes,
        report.redirect_entries_moved,
        report.held_packets,
        report.offered_packets,
        report.hold_max_seconds * 1e6,
        report.reordered_packets,
        report.reordered_unless_held_packets,
    );
    assert!(report.redirect_entries_moved >= ENTRIES, "{} moved", report.redirect_entries_moved);
    assert!(report.reordered_unless_held_packets > 0, "nothing had to be held");
    assert_eq!(report.reordered_packets, 0);
}
