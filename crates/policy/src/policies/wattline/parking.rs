//! How deep a parked core sleeps.

use super::machine::Machine;

impl Machine {
    /// The deepest idle state of a core that has been parked for so many seconds: one that costs no more
    /// to leave than the lightest one has drawn more meanwhile. So parking never takes more than twice the
    /// energy of the best in hindsight (ski rental).
    pub fn deep_after(&self, seconds: f64, frequency: usize) -> usize {
        let lightest = self.idle[0];
        let pays = |state: &usize| {
            let deeper = self.idle[*state];
            let costs = (deeper.1 - lightest.1) * self.awake[frequency];
            (lightest.0 - deeper.0) * seconds >= costs
        };
        (0..self.idle.len()).rev().find(pays).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::tests::westmere;
    use crate::policies::testing::server;
    use wattline_server::Application;

    /// C1 draws 1.08 W more than C3, which takes 59 us of 6.4 W more to leave: 0.35 ms. It draws 1.5 W more
    /// than C6, which takes 86 us more: 0.37 ms.
    #[test]
    fn a_parked_core_goes_deeper_when_it_pays() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        let state = |micros: f64| machine.deep_after(micros * 1e-6, 0);
        assert_eq!([0.0, 340.0, 355.0, 380.0, 1e6].map(state), [0, 0, 1, 2, 2]);
        assert_eq!(machine.deep_after(380e-6, 13), 0, "a fast core draws more while it wakes");
    }
}
