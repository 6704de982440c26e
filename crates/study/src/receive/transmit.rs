//! Memory accesses of sent packets.

use super::cache::LINE_BYTES;
use super::data::{Data, Phase};
use super::layout::{BUFFERS_PER_PAGE, FRAME_LINES, payload};
use super::machine::{Caches, Machine};
use super::path::{InvalidPath, ReceivePath};
use super::slab::Slab;

/// Returns the memory accesses per *sent* line of payload: the stack writes it into a kernel
/// buffer, and the card reads it from there. With `drop`, the card's read removes the line from the
/// caches, and it is never written to memory.
///
/// # Errors
/// Fails when the cache is invalid.
pub fn transmitted_accesses(
    path: &ReceivePath,
    packets: u64,
    drop: bool,
) -> Result<f64, InvalidPath> {
    path.check()?;
    let mut machine = Machine::new(&Caches { cores: 1, ..path.caches() })?;
    machine.awake = true;
    let mut buffers = Slab::new(BUFFERS_PER_PAGE, 24, 8, 1);
    let mut sent = 0;
    for round in 0..2 {
        sent = 0;
        while sent < packets {
            let batch: Vec<u32> = (0..path.batch).map(|_| buffers.take(0, |_| ())).collect();
            for (index, buffer) in batch.iter().enumerate() {
                let user = (index as u32 * FRAME_LINES) % (path.io_bytes / LINE_BYTES).max(1);
                for line in 0..FRAME_LINES {
                    machine.touch(0, Phase::Copy, Data::User.line(user + line), false);
                    machine.touch(0, Phase::Copy, payload(*buffer, line), true);
                }
            }
            for buffer in batch {
                for line in 0..FRAME_LINES {
                    machine.dma_read(payload(buffer, line), drop);
                }
                buffers.give(0, buffer, |_| ());
            }
            sent += path.batch as u64;
        }
        if round == 0 {
            machine.forget_counts();
        }
    }
    let total = machine.memory[Data::Payload as usize].total();
    Ok(total as f64 / (sent * u64::from(FRAME_LINES)) as f64)
}
