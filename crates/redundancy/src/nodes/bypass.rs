//! Detects flows that look encrypted and gain nothing; most of their packets are then skipped.
//!
//! Compressed content looks the same, and gains well when it is repeated. A flow is therefore given
//! up only after [`PATIENCE`] packets without gain. Even then one packet in [`PROBE`] is tried, and
//! the first gain ends the bypass of the flow.

/// Number of packets that look encrypted and gain nothing before a flow is given up.
const PATIENCE: u16 = 32;
/// One packet in this many is tried in a flow that was given up.
const PROBE: u16 = 16;
/// Size of the flow table; flows with the same hash share an entry.
const FLOWS: usize = 4096;
/// Number of payload bytes in the sample.
const SAMPLED: usize = 64;
/// Number of distinct values in the sample that counts as noise. Noise has 56.7 on average with a
/// deviation of 2.3, text about 25.
const DISTINCT: u32 = 48;
/// Offset of the sample in the payload, so that it skips transport headers.
const SKIPPED: usize = 32;

/// Flow table of the bypass; one per worker.
pub(super) struct Flows(Box<[u16]>);

impl Flows {
    pub fn new() -> Self {
        Self(vec![0; FLOWS].into_boxed_slice())
    }

    /// Returns true if a packet of this flow is to be skipped.
    pub fn skips(&mut self, flow: u32, payload: &[u8]) -> bool {
        let Some(idle) = self.0.get_mut(flow as usize % FLOWS) else { return false };
        if !looks_encrypted(payload) {
            *idle = 0;
            return false;
        }
        *idle += 1;
        if *idle >= PATIENCE + PROBE {
            *idle = PATIENCE;
        }
        *idle > PATIENCE
    }

    /// Records that a packet of this flow gained something.
    pub fn gained(&mut self, flow: u32) {
        if let Some(idle) = self.0.get_mut(flow as usize % FLOWS) {
            *idle = 0;
        }
    }
}

/// Returns true if a sample of the bytes is as varied as noise.
fn looks_encrypted(payload: &[u8]) -> bool {
    let content = payload.get(SKIPPED..).unwrap_or_default();
    let step = content.len() / SAMPLED;
    if step == 0 {
        return false;
    }
    let mut seen = [0u64; 4];
    for byte in content.iter().step_by(step).take(SAMPLED) {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|word| word.count_ones()).sum::<u32>() >= DISTINCT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_distinguished_from_text_and_numbers() {
        let mut state = 1u64;
        let mut noise = |length: usize| -> Vec<u8> {
            let mut byte = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            (0..length).map(|_| byte()).collect()
        };
        let right = (0..1000).filter(|_| looks_encrypted(&noise(1400))).count();
        assert!(right > 990, "{right} of 1000");
        let text = include_bytes!("bypass.rs");
        assert!(text.chunks(1400).all(|chunk| !looks_encrypted(chunk)));
        let numbers: Vec<u8> = (0..350u32).flat_map(u32::to_le_bytes).collect();
        assert!(!looks_encrypted(&numbers) && !looks_encrypted(&noise(95)));
    }

    #[test]
    fn a_flow_is_given_up_slowly_probed_and_brought_back() {
        let noise: Vec<u8> = (0..=255).map(|at: u8| at.wrapping_mul(167)).collect();
        let mut flows = Flows::new();
        let tried = |flows: &mut Flows, packets: u16| {
            (0..packets).filter(|_| !flows.skips(7, &noise)).count()
        };
        assert_eq!(tried(&mut flows, PATIENCE), usize::from(PATIENCE));
        assert_eq!(tried(&mut flows, 10 * PROBE), 10);
        flows.gained(7);
        assert_eq!(tried(&mut flows, PATIENCE), usize::from(PATIENCE));
        assert!(flows.skips(7, &noise) && !flows.skips(7, &[0; 256]) && !flows.skips(7, &noise));
    }
}
