//! Power of cores from the time in their states.

use crate::states::Spent;
use wattline_server::{PowerTerms, ServerModel};
use wattline_units::{BitsPerSecond, Watts};

/// Mean power by cause: time in each state times power of that state. `spent` holds the cores in
/// use; the other cores of the server are parked.
pub fn power_terms(
    spent: &[Spent],
    seconds: f64,
    server: &ServerModel,
    uncore: Watts,
    bits: BitsPerSecond,
) -> PowerTerms {
    let share = |picos: u64| picos as f64 * 1e-12 / seconds;
    let awake = |core: &Spent| {
        let at_frequency = |(index, picos): (usize, &u64)| {
            server.awake_core_power(server.processor.frequencies[index]) * share(*picos)
        };
        core.useful.iter().enumerate().chain(core.empty.iter().enumerate()).map(at_frequency).sum()
    };
    let idle = |core: &Spent| {
        core.idle
            .iter()
            .enumerate()
            .map(|(state, picos)| server.idle_core_power(state) * share(*picos))
            .sum()
    };
    // Cores without a queue are not in use: always parked.
    let unused = server.processor.cores().saturating_sub(spent.len()) as f64;
    let parked = server.idle_core_power(server.deepest_idle_state()) * unused;
    PowerTerms {
        base: server.power.base.total(),
        awake_cores: spent.iter().map(awake).sum(),
        idle_cores: spent.iter().map(idle).sum::<Watts>() + parked,
        uncore,
        traffic: server.power.traffic(bits),
    }
}
