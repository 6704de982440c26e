//! Cryptography by Intel's multi-buffer library.
//!
//! GCM keeps the processor busy with one packet, so its packets follow each other. The encryption of
//! CBC goes from block to block, and so does a hash: packets with the same algorithm, of any SA, are
//! encrypted and hashed up to 16 at once. Received packets are decrypted only if their ICV is
//! right.

use super::expanded::Expanded;
use super::job::Job;
use super::transform::{Authenticated, Layout, hashed, nonce, number};
use crate::multibuffer::{Batch, Cipher, Integrity, Key, Manager, Mode, TAG};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use wattline_dataplane::frame::{BATCH_MAX, ChunkMemory};
use wattline_memory::Apart;
use wattline_packet::esp::HEADER;

// A batch of the graph is one of the library.
const _: () = assert!(BATCH_MAX <= crate::multibuffer::MOST);
const _: () = assert!(BATCH_MAX <= wattline_memory::MOST_APART);

/// Modes whose packets are processed together.
const TOGETHER: [Mode; 4] = [
    Mode::Cbc(Cipher::Aes128, Integrity::Sha1),
    Mode::Cbc(Cipher::Aes256, Integrity::Sha1),
    Mode::Cbc(Cipher::Aes128, Integrity::Sha256),
    Mode::Cbc(Cipher::Aes256, Integrity::Sha256),
];

/// The library's state for one node.
pub(super) struct SideBySide {
    manager: Manager,
}

impl SideBySide {
    /// Sets the library up; `None` if this machine does not have it.
    pub fn new() -> Option<Self> {
        Manager::new().map(|manager| Self { manager })
    }

    /// Seals all packets.
    pub fn seal(&mut self, memory: &mut ChunkMemory, jobs: &mut [Option<Job<'_>>]) {
        let mut inputs = [None; BATCH_MAX];
        let mut together = [false; TOGETHER.len()];
        for (job, input) in jobs.iter_mut().zip(&mut inputs) {
            let Some(job) = job else { continue };
            match job.transform.expanded() {
                Some(expanded) if is_gcm(expanded) => {
                    *input = Input::to_seal(memory, job, expanded)
                }
                Some(expanded) => note(&mut together, expanded),
                None => job.seal(memory),
            }
        }
        for (job, input) in jobs.iter_mut().zip(&inputs) {
            if let (Some(job), Some(input)) = (job, input) {
                job.done = gcm_seal(&mut self.manager, memory, job, input).is_some();
            }
        }
        for (mode, _) in TOGETHER.into_iter().zip(together).filter(|(_, has)| *has) {
            self.cbc_seal(memory, jobs, mode);
        }
    }

    /// Opens all packets.
    pub fn open(&mut self, memory: &mut ChunkMemory, jobs: &mut [Option<Job<'_>>]) {
        let mut inputs = [None; BATCH_MAX];
        let mut together = [false; TOGETHER.len()];
        for (job, input) in jobs.iter_mut().zip(&mut inputs) {
            let Some(job) = job else { continue };
            match job.transform.expanded() {
                Some(expanded) if is_gcm(expanded) => {
                    *input = Input::to_open(memory, job, expanded)
                }
                Some(expanded) => note(&mut together, expanded),
                None => job.open(memory),
            }
        }
        for (job, input) in jobs.iter_mut().zip(&inputs) {
            if let (Some(job), Some(input)) = (job, input) {
                job.done = gcm_open(&mut self.manager, memory, job, input).is_some();
            }
        }
        for (mode, _) in TOGETHER.into_iter().zip(together).filter(|(_, has)| *has) {
            self.cbc_open(memory, jobs, mode);
        }
    }

    fn cbc_seal(&mut self, memory: &mut ChunkMemory, jobs: &mut [Option<Job<'_>>], mode: Mode) {
        let mut batch = Batch::new(mode);
        let mut apart = Apart::new(memory);
        let mut order = Order::new(jobs, mode);
        // Packets that cannot be added keep `done` false.
        order.keep(jobs, |job, key| {
            let packet = apart.take(job.range())?;
            let algorithm = job.transform.algorithm();
            let layout = Layout::split(algorithm, packet).ok()?;
            layout.iv.copy_from_slice(&number(job.unique, job.sequence));
            let end = packet.len() - algorithm.icv();
            let hashed = hashed(packet, end, job.sequence, job.extended);
            batch.push(key, packet, HEADER..end, hashed).then_some(())
        });
        if self.manager.cbc_seal(&mut batch).is_err() {
            return;
        }
        let mut sealed = batch.packets();
        order.keep(jobs, |job, _| {
            let (packet, tag) = sealed.next()?;
            let icv = job.transform.algorithm().icv();
            let end = packet.len() - icv;
            packet[end..].copy_from_slice(&tag[..icv]);
            job.done = true;
            Some(())
        });
    }

    fn cbc_open(&mut self, memory: &mut ChunkMemory, jobs: &mut [Option<Job<'_>>], mode: Mode) {
        let mut batch = Batch::new(mode);
        let mut apart = Apart::new(memory);
        let mut order = Order::new(jobs, mode);
        let mut claimed = [[0; TAG]; BATCH_MAX];
        order.keep(jobs, |job, key| {
            let packet = apart.take(job.range())?;
            let algorithm = job.transform.algorithm();
            let layout = Layout::split(algorithm, packet).ok()?;
            claimed[batch.len()][..algorithm.icv()].copy_from_slice(layout.icv);
            let end = packet.len() - algorithm.icv();
            let hashed = hashed(packet, end, job.sequence, job.extended);
            batch.push(key, packet, 0..0, hashed).then_some(())
        });
        if self.manager.hash(&mut batch).is_err() {
            return;
        }
        let mut hashed = batch.packets().zip(&claimed);
        order.keep(jobs, |job, key| {
            let ((packet, tag), claimed) = hashed.next()?;
            let algorithm = job.transform.algorithm();
            let icv = ..algorithm.icv();
            verify_slices_are_equal(&tag[icv], &claimed[icv]).ok()?;
            let Layout { iv, body, .. } = Layout::split(algorithm, packet).ok()?;
            self.manager.cbc_open(key, iv.first_chunk()?, body).ok()?;
            job.done = true;
            Some(())
        });
    }
}

/// The packets of one mode, longest first: a long packet that begins last would be processed alone
/// at the end.
struct Order {
    places: [u8; BATCH_MAX],
    count: usize,
}

impl Order {
    fn new(jobs: &[Option<Job<'_>>], mode: Mode) -> Self {
        let mut by_length = [0; BATCH_MAX];
        let mut count = 0;
        for (job, place) in jobs.iter().zip(0_u64..) {
            if let Some(job) = job
                && key_of(job, mode).is_some()
            {
                by_length[count] = u64::from(job.end.wrapping_sub(job.start)) << 8 | place;
                count += 1;
            }
        }
        let by_length = &mut by_length[..count];
        let first = by_length.first().map_or(0, |length| length >> 8);
        if by_length.iter().any(|length| length >> 8 != first) {
            by_length.sort_unstable_by(|one, other| other.cmp(one));
        }
        let mut places = [0; BATCH_MAX];
        for (place, length) in places.iter_mut().zip(by_length) {
            // The place, which is below 64.
            *place = *length as u8;
        }
        Self { places, count }
    }

    /// Passes each packet and its key to a function, and keeps those for which it returns `Some`.
    #[inline]
    fn keep<'d>(
        &mut self,
        jobs: &mut [Option<Job<'d>>],
        mut each: impl FnMut(&mut Job<'d>, &'d Key) -> Option<()>,
    ) {
        let mut kept = 0;
        for at in 0..self.count {
            let place = self.places[at];
            let Some(Some(job)) = jobs.get_mut(usize::from(place)) else { continue };
            let Some(Expanded { key, .. }) = job.transform.expanded() else { continue };
            if each(job, key).is_some() {
                self.places[kept] = place;
                kept += 1;
            }
        }
        self.count = kept;
    }
}

/// Returns the key of a packet of this mode.
#[inline]
fn key_of<'d>(job: &Job<'d>, mode: Mode) -> Option<&'d Key> {
    let transform = job.transform;
    transform.expanded().map(|expanded| &expanded.key).filter(|key| key.mode() == mode)
}

fn is_gcm(expanded: &Expanded) -> bool {
    matches!(expanded.key.mode(), Mode::Gcm(_))
}

/// Notes that there are packets for a key.
fn note(together: &mut [bool; TOGETHER.len()], expanded: &Expanded) {
    for (has, mode) in together.iter_mut().zip(TOGETHER) {
        *has |= mode == expanded.key.mode();
    }
}

/// Input of GCM for a packet, except its body. All inputs are written before the first packet is
/// sealed or opened: the library reads them in wider pieces, and would wait for the writes.
#[derive(Clone, Copy)]
struct Input<'d> {
    key: &'d Key,
    nonce: [u8; 12],
    more: Authenticated,
}

impl<'d> Input<'d> {
    /// Also writes the IV.
    #[inline]
    fn to_seal(memory: &mut ChunkMemory, job: &Job<'_>, expanded: &'d Expanded) -> Option<Self> {
        let packet = memory.get_mut(job.range())?;
        let layout = Layout::split(job.transform.algorithm(), packet).ok()?;
        layout.iv.copy_from_slice(&job.unique.to_be_bytes());
        Self::new(layout, job, expanded)
    }

    #[inline]
    fn to_open(memory: &mut ChunkMemory, job: &Job<'_>, expanded: &'d Expanded) -> Option<Self> {
        let packet = memory.get_mut(job.range())?;
        Self::new(Layout::split(job.transform.algorithm(), packet).ok()?, job, expanded)
    }

    #[inline]
    fn new(layout: Layout<'_>, job: &Job<'_>, expanded: &'d Expanded) -> Option<Self> {
        let nonce = nonce(&expanded.salt, layout.iv).ok()?;
        let more = Authenticated::new(layout.header, job.sequence, job.extended);
        Some(Self { key: &expanded.key, nonce, more })
    }
}

#[inline]
fn gcm_seal(
    manager: &mut Manager,
    memory: &mut ChunkMemory,
    job: &Job<'_>,
    Input { key, nonce, more }: &Input<'_>,
) -> Option<()> {
    let packet = memory.get_mut(job.range())?;
    let Layout { body, icv, .. } = Layout::split(job.transform.algorithm(), packet).ok()?;
    manager.gcm_seal(key, nonce, more.bytes(), body, icv.first_chunk_mut()?).ok()
}

#[inline]
fn gcm_open(
    manager: &mut Manager,
    memory: &mut ChunkMemory,
    job: &Job<'_>,
    Input { key, nonce, more }: &Input<'_>,
) -> Option<()> {
    let packet = memory.get_mut(job.range())?;
    let Layout { body, icv, .. } = Layout::split(job.transform.algorithm(), packet).ok()?;
    let tag = manager.gcm_open(key, nonce, more.bytes(), body).ok()?;
    if verify_slices_are_equal(&tag, icv).is_err() {
        // The plaintext of a forged packet must not be readable.
        body.fill(0);
        return None;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::esp::algorithm::Algorithm;
    use crate::esp::key::KeyMaterial;
    use crate::esp::transform::Transform;
    use proptest::prelude::*;

    /// Room for a packet of 9000 bytes at any offset.
    const CHUNK: usize = 16384;

    /// A packet: number of its SA, length without ICV in blocks of its algorithm, offset in its
    /// chunk, and its sequence numbers.
    #[derive(Debug, Clone)]
    struct Given {
        association: usize,
        blocks: usize,
        offset: usize,
        sequence: u64,
        unique: u64,
        extended: bool,
        damage: Damage,
    }

    /// Damage to a packet between the two ends.
    #[derive(Debug, Clone)]
    enum Damage {
        None,
        Bit(prop::sample::Index),
        /// The high half of the number, which the receiver does not know, differs.
        High,
        /// So many bytes at its end are lost.
        Cut(usize),
    }

    fn any_given() -> impl Strategy<Value = Given> {
        let length = prop_oneof![8 => 0usize..100, 1 => 0usize..9000];
        let damage = prop_oneof![
            3 => Just(Damage::None),
            2 => any::<prop::sample::Index>().prop_map(Damage::Bit),
            1 => Just(Damage::High),
            1 => (1usize..60).prop_map(Damage::Cut),
        ];
        (0usize..12, length, 0usize..256, any::<[u64; 2]>(), any::<bool>(), damage).prop_map(
            |(association, length, offset, [sequence, unique], extended, damage)| {
                let block = Algorithm::ALL[association % 6].alignment();
                let sequence = if extended { sequence } else { sequence & 0xffff_ffff };
                let blocks = length.div_ceil(block);
                Given { association, blocks, offset, sequence, unique, extended, damage }
            },
        )
    }

    #[track_caller]
    fn library() -> Option<SideBySide> {
        let library = SideBySide::new();
        if library.is_none() {
            wattline_needs::tool("libipsec-mb");
        }
        library
    }

    /// Two SAs of each algorithm.
    fn associations() -> Vec<Transform> {
        let make = |number: usize| {
            let algorithm = Algorithm::ALL[number % 6];
            let key: Vec<u8> =
                (0..algorithm.key_material()).map(|at| (at * 7 + number * 31) as u8).collect();
            let key = KeyMaterial::new(algorithm, key).unwrap();
            Transform::new(algorithm, &key).unwrap()
        };
        (0..12).map(make).collect()
    }

    fn bytes(memory: &ChunkMemory) -> Vec<u8> {
        (0..BATCH_MAX)
            .flat_map(|at| memory.get(at * CHUNK..(at + 1) * CHUNK).unwrap().to_vec())
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Both seal to the same bytes and touch no others. Both open the same packets to the same
        /// bytes, refuse the same ones, and leave nothing readable of those.
        #[test]
        fn batches_are_as_packets_by_themselves(
            given in prop::collection::vec(prop::option::weighted(0.9, any_given()), 1..=BATCH_MAX),
        ) {
            let transforms = associations();
            let Some(mut library) = library() else { return Ok(()) };
            let mut together = ChunkMemory::zeroed(BATCH_MAX, CHUNK);
            for at in 0..BATCH_MAX {
                let chunk = together.get_mut(at * CHUNK..(at + 1) * CHUNK).unwrap();
                for (place, byte) in chunk.iter_mut().enumerate() {
                    *byte = (at * 3 + place / 11) as u8 | 1;
                }
            }
            let mut jobs: Vec<Option<Job<'_>>> = given
                .iter()
                .enumerate()
                .map(|(at, given)| {
                    let given = given.as_ref()?;
                    let transform = &transforms[given.association];
                    let algorithm = transform.algorithm();
                    let start = at * CHUNK + given.offset;
                    let body = given.blocks * algorithm.alignment();
                    let length = HEADER + algorithm.iv() + body + algorithm.icv();
                    let low = (given.sequence as u32).to_be_bytes();
                    together.get_mut(start + 4..start + 8).unwrap().copy_from_slice(&low);
                    Some(Job {
                        transform,
                        sequence: given.sequence,
                        unique: given.unique,
                        start: start as u32,
                        end: (start + length) as u32,
                        extended: given.extended,
                        done: false,
                    })
                })
                .collect();
            let copy = |memory: &ChunkMemory| {
                let mut copy = ChunkMemory::zeroed(BATCH_MAX, CHUNK);
                for at in 0..BATCH_MAX {
                    let chunk = at * CHUNK..(at + 1) * CHUNK;
                    copy.get_mut(chunk.clone()).unwrap().copy_from_slice(memory.get(chunk).unwrap());
                }
                copy
            };
            let mut alone = copy(&together);
            let mut jobs_alone = jobs.clone();
            library.seal(&mut together, &mut jobs);
            jobs_alone.iter_mut().flatten().for_each(|job| job.seal(&mut alone));
            for (given, (job, other)) in given.iter().zip(jobs.iter().zip(&jobs_alone)) {
                let done = |job: &Option<Job<'_>>| job.map(|job| job.done);
                prop_assert_eq!(done(job), done(other));
                prop_assert_eq!(done(job), given.as_ref().map(|given| given.blocks > 0));
            }
            prop_assert!(bytes(&together) == bytes(&alone), "other bytes");

            for (given, job) in given.iter().zip(&mut jobs) {
                let (Some(given), Some(job)) = (given, job) else { continue };
                job.done = false;
                match &given.damage {
                    Damage::None => {}
                    Damage::Bit(bit) => {
                        let packet = together.get_mut(job.range()).unwrap();
                        let bit = bit.index(packet.len() * 8);
                        packet[bit / 8] ^= 1 << (bit % 8);
                        // The receiver takes the low half from the header.
                        let low = u32::from_be_bytes(*packet[4..].first_chunk().unwrap());
                        job.sequence = job.sequence & !0xffff_ffff | u64::from(low);
                    }
                    Damage::High => job.sequence ^= 1 << 40,
                    Damage::Cut(bytes) => {
                        job.end = job.end.saturating_sub(*bytes as u32).max(job.start);
                    }
                }
            }
            let sealed = together;
            let (mut together, mut alone) = (copy(&sealed), copy(&sealed));
            let mut jobs_alone = jobs.clone();
            library.open(&mut together, &mut jobs);
            jobs_alone.iter_mut().flatten().for_each(|job| job.open(&mut alone));
            for (given, (job, other)) in given.iter().zip(jobs.iter().zip(&jobs_alone)) {
                let (Some(given), Some(job), Some(other)) = (given, job, other) else { continue };
                prop_assert_eq!(job.done, other.done, "{:?}", given);
                let intact = match given.damage {
                    Damage::None => true,
                    // Authenticated only where the receiver's number is longer than that sent.
                    Damage::High => !given.extended,
                    Damage::Bit(_) | Damage::Cut(_) => false,
                };
                prop_assert_eq!(job.done, intact && given.blocks > 0, "{:?}", given);
                let algorithm = job.transform.algorithm();
                let body = HEADER + algorithm.iv();
                let length = (given.blocks * algorithm.alignment()).min(job.range().len());
                let range = job.start as usize + body..job.start as usize + body + length;
                let Some(mine) = together.get(range.clone()) else { continue };
                if job.done {
                    prop_assert!(Some(mine) == alone.get(range), "{:?}", given);
                } else if length >= 16 {
                    let plain = |at: usize| ((range.start + at) / CHUNK * 3 + (range.start + at) % CHUNK / 11) as u8 | 1;
                    let shown = mine.windows(8).enumerate().any(|(at, window)| {
                        window.iter().enumerate().all(|(more, byte)| *byte == plain(at + more))
                    });
                    prop_assert!(!shown, "{:?}", given);
                }
            }
        }
    }

    /// If the data plane gave one chunk to two packets, one of them is dropped.
    #[test]
    fn no_two_packets_share_bytes() {
        let transforms = associations();
        let mut memory = ChunkMemory::zeroed(2, CHUNK);
        let Some(mut library) = library() else { return };
        let job = |start: u32| {
            let transform = &transforms[2];
            Some(Job {
                transform,
                sequence: 1,
                unique: 1,
                start,
                end: start + 84,
                extended: false,
                done: false,
            })
        };
        let mut jobs = [job(0), job(80), job(84)];
        library.seal(&mut memory, &mut jobs);
        assert_eq!(jobs.map(|job| job.unwrap().done), [true, false, true]);
    }
}
