//! A batch is processed as its packets one by one.

use super::*;
use proptest::prelude::*;

/// Fate of a sealed packet on its way to the receiver.
#[derive(Debug, Clone)]
enum Fate {
    Arrives,
    /// A bit of the ESP packet is flipped.
    Damaged(prop::sample::Index),
    /// Bytes at its end are lost.
    Cut(prop::sample::Index),
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Arrives),
        1 => any::<prop::sample::Index>().prop_map(Fate::Damaged),
        1 => any::<prop::sample::Index>().prop_map(Fate::Cut),
    ]
}

impl Fate {
    fn apply(&self, sealed: &[u8]) -> Vec<u8> {
        let mut frame = sealed.to_vec();
        let start = 14 + 20;
        match self {
            Self::Arrives => {}
            Self::Damaged(bit) => {
                let bit = bit.index((frame.len() - start) * 8);
                frame[start + bit / 8] ^= 1 << (bit % 8);
            }
            Self::Cut(at) => frame.truncate(at.index(frame.len())),
        }
        frame
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Packets arrive repeatedly, damaged, cut and in any order, farther apart than the window is
    /// wide. The accepted packets, their order, the drop reasons and the window are the same.
    #[test]
    fn a_batch_is_received_as_its_packets_one_by_one(
        algorithm in prop::sample::select(Algorithm::ALL.to_vec()),
        extended: bool,
        last in prop_oneof![Just(0), Just(u64::from(u32::MAX) - 70)],
        sent in 1usize..150,
        arrivals in prop::collection::vec((any::<prop::sample::Index>(), any_fate()), 1..130),
    ) {
        // Without extended numbers there are none beyond the cycle.
        let last = if extended { last } else { 0 };
        let options = Options { algorithm, extended, last, ..Options::PLAIN };
        let (mut together, mut alone) = (Pair::new(options), Pair::new(options));
        let frames: Vec<_> =
            (0..sent).map(|number| frame4(MAC_A, 64, &vec![number as u8; 8 + number])).collect();
        let sealed = together.encrypt(&frames);
        let sealed_alone: Vec<_> =
            frames.iter().flat_map(|frame| alone.encrypt(std::slice::from_ref(frame))).collect();
        prop_assert_eq!(&sealed, &sealed_alone);

        let arrive = |(index, fate): &(prop::sample::Index, Fate)| fate.apply(&sealed[index.index(sealed.len())]);
        let arrivals: Vec<_> = arrivals.iter().map(arrive).collect();
        let (out, counted) = together.decrypt(&arrivals);
        let mut out_alone = Vec::new();
        let mut counted_alone = Snapshot::default();
        for frame in &arrivals {
            let (out, counted) = alone.decrypt(std::slice::from_ref(frame));
            out_alone.extend(out);
            counted_alone = counted;
        }
        prop_assert_eq!(out, out_alone);
        prop_assert_eq!(counted.dropped, counted_alone.dropped);
        prop_assert_eq!(together.inbound.window.highest(), alone.inbound.window.highest());
        let counters = |pair: &Pair| {
            let counters = &pair.inbound.common.counters;
            (counters.packets(), counters.bytes(), counters.dropped().collect::<Vec<_>>())
        };
        prop_assert_eq!(counters(&together), counters(&alone));
    }
}

/// The first packet of the batch moves a number, received before the batch, so far behind that it
/// counts as one of the next cycle. It is tried under that number, as if it came alone.
#[test]
fn a_number_that_comes_into_reach_within_a_batch_is_tried() {
    let options = Options { extended: true, last: u64::from(u32::MAX) - 70, ..Options::PLAIN };
    for together in [true, false] {
        let mut pair = Pair::new(options);
        let frames: Vec<_> = (0..96).map(|_| frame4(MAC_A, 64, &[0; 8])).collect();
        let sealed = pair.encrypt(&frames);
        let mut old = sealed[0].clone();
        let sequence = 14 + 20 + 4;
        old[sequence..sequence + 4].copy_from_slice(&(u32::MAX - 79).to_be_bytes());
        let arrivals = [sealed[95].clone(), old];
        let (out, counted) = if together {
            pair.decrypt(&arrivals)
        } else {
            let (out, _) = pair.decrypt(&arrivals[..1]);
            (out, pair.decrypt(&arrivals[1..]).1)
        };
        assert_eq!(out.len(), 1);
        assert_eq!(counted.dropped, [("esp-forged", 1)].into(), "together: {together}");
    }
}
