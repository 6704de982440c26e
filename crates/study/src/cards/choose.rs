//! Choice of cards that carry a throughput within the budgets of a host.

use serde::Serialize;
use wattline_server::components::NicCard;
use wattline_units::{BitsPerSecond, Watts};

/// Power of a host: constant when idle, plus a part proportional to processor load (Sohan et al.,
/// section III.B.3).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HostPower {
    /// Idle power without cards.
    #[serde(rename = "idle_watts")]
    pub idle: Watts,
    /// Power per percent of one processor.
    #[serde(rename = "watts_per_cpu_percent")]
    pub per_cpu_percent: Watts,
}

/// Requirements on the cards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// Throughput of both directions together.
    pub throughput: BitsPerSecond,
    /// Limit on the host's processor load, in percent of one processor.
    pub host_cpu_percent: Option<f64>,
    /// Largest number of cards.
    pub slots: usize,
    /// Limit on the power of all cards together.
    pub power: Option<Watts>,
    /// Power of the host, if it counts; the best card then minimises the server's power.
    pub host: Option<HostPower>,
}

/// Errors in the requirements.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NeedError {
    /// A field must be a positive, finite number.
    #[error("{0} is {1}; allowed: a finite number above 0")]
    NotPositive(&'static str, f64),
    /// There is no slot.
    #[error("slots is 0; allowed: 1 or more")]
    NoSlots,
}

/// One kind of card, in the number that the throughput needs, compared with the requirements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Name of the card.
    pub name: String,
    /// Number of cards that carry the throughput, one per slot.
    pub slots: usize,
    /// Highest throughput of this number of cards, both directions.
    #[serde(rename = "most_throughput_bits_per_second")]
    pub most_throughput: BitsPerSecond,
    /// Power of these cards under load; `None` if it was not measured.
    #[serde(rename = "power_watts")]
    pub power: Option<Watts>,
    /// Processor load for the throughput in percent of one processor, scaled from the measured
    /// load.
    pub host_cpu_percent: Option<f64>,
    /// Power of the whole server; `None` if the host's power is not given.
    #[serde(rename = "server_watts")]
    pub server: Option<Watts>,
    /// Required throughput divided by the power of the cards.
    #[serde(rename = "gigabits_per_second_per_watt")]
    pub gigabits_per_watt: Option<f64>,
    /// Requirements that are not met; empty if all are.
    pub obstacles: Vec<String>,
}

impl Candidate {
    /// Returns true if all requirements are met.
    pub fn fits(&self) -> bool {
        self.obstacles.is_empty()
    }

    /// Returns the power to minimise.
    fn cost(&self) -> f64 {
        self.server.or(self.power).map_or(f64::INFINITY, |watts| watts.0)
    }
}

/// Compares all cards with known throughput: first those that meet the requirements, then the
/// others, each group by power.
///
/// Processor load is scaled in proportion to throughput. Power is that of full load: idle and
/// active power differ by less than a watt in all measured cards.
///
/// # Errors
/// Fails when the requirements are invalid.
pub fn choose(cards: &[NicCard], need: &Need) -> Result<Vec<Candidate>, NeedError> {
    let positive = |name, value: f64| match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(NeedError::NotPositive(name, value)),
    };
    positive("throughput", need.throughput.0)?;
    need.host_cpu_percent.map_or(Ok(()), |percent| positive("cpu-budget", percent))?;
    need.power.map_or(Ok(()), |power| positive("power", power.0))?;
    if need.slots == 0 {
        return Err(NeedError::NoSlots);
    }
    let mut all: Vec<Candidate> =
        cards.iter().filter_map(|card| Some(candidate(card, card.throughput?, need))).collect();
    all.sort_by(|a, b| {
        (!a.fits(), a.cost())
            .partial_cmp(&(!b.fits(), b.cost()))
            .unwrap_or_else(|| a.name.cmp(&b.name))
    });
    Ok(all)
}

fn candidate(card: &NicCard, each: BitsPerSecond, need: &Need) -> Candidate {
    // The tolerance makes 33 Gbit/s take ten cards of 3.3 Gbit/s instead of eleven.
    let count = ((need.throughput / each - 1e-9).ceil().max(1.0)) as usize;
    let power = card.active.map(|watts| watts * count as f64);
    let cpu = card.host_cpu_percent.map(|percent| percent * (need.throughput / each));
    let server = need.host.and_then(|host| Some(host.idle + host.per_cpu_percent * cpu? + power?));
    let mut obstacles = Vec::new();
    if count > need.slots {
        obstacles.push(format!("takes {count} slots of {}", need.slots));
    }
    match (cpu, need.host_cpu_percent) {
        (Some(cpu), Some(most)) if cpu > most => {
            obstacles.push(format!("takes {cpu:.0} % of {most:.0} % of a processor"));
        }
        (None, Some(_)) => {
            obstacles.push("its load on the host's processors is not known".into());
        }
        _ => {}
    }
    match (power, need.power) {
        (Some(power), Some(most)) if power.0 > most.0 => {
            obstacles.push(format!("draws {:.1} W of {:.1} W", power.0, most.0));
        }
        (None, Some(_)) => obstacles.push("its active power is not known".into()),
        _ => {}
    }
    if need.host.is_some() && server.is_none() && need.host_cpu_percent.is_none() {
        obstacles.push("the server's power with it is not known".into());
    }
    Candidate {
        name: card.name.clone(),
        slots: count,
        most_throughput: each * count as f64,
        power,
        host_cpu_percent: cpu,
        server,
        gigabits_per_watt: power.map(|watts| need.throughput.0 / 1e9 / watts.0),
        obstacles,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_server::ComponentFile;

    fn need(gigabits: f64) -> Need {
        let throughput = BitsPerSecond(gigabits * 1e9);
        Need { throughput, host_cpu_percent: None, slots: 1, power: None, host: None }
    }

    fn best(need: &Need) -> Option<String> {
        let cards = ComponentFile::load("sohan-2010-nics").unwrap().cards;
        let all = choose(&cards, need).unwrap();
        assert_eq!(all.len(), 10);
        all.into_iter().find(Candidate::fits).map(|candidate| candidate.name)
    }

    #[test]
    fn each_budget_changes_the_choice() {
        assert_eq!(best(&need(16.0)).unwrap(), "Solarflare(CX4)");
        // Only the offload card carries 18 Gbit/s in one slot, or 16 Gbit/s with 250 %.
        assert_eq!(best(&need(18.0)).unwrap(), "Broadcom(Fibre)");
        let cpu = Need { host_cpu_percent: Some(250.0), ..need(16.0) };
        assert_eq!(best(&cpu).unwrap(), "Broadcom(Fibre)");
        assert_eq!(best(&Need { power: Some(Watts(10.0)), ..cpu }), None);
        let two = Need { slots: 2, ..need(18.0) };
        assert_eq!(best(&two).unwrap(), "Solarflare(CX4)");
        // Below a gigabit the single 1G card needs the least power.
        assert_eq!(best(&need(1.5)).unwrap(), "Intel 1G");
    }

    #[test]
    fn host_counts_if_its_power_is_given() {
        let host = HostPower { idle: Watts(200.0), per_cpu_percent: Watts(0.2) };
        assert_eq!(best(&Need { host: Some(host), ..need(16.0) }).unwrap(), "Broadcom(Fibre)");
    }

    #[test]
    fn choice_equals_an_exhaustive_search() {
        let cards = ComponentFile::load("sohan-2010-nics").unwrap().cards;
        for tenths in 1..400 {
            let need =
                Need { slots: 3, power: Some(Watts(20.0)), ..need(f64::from(tenths) / 10.0) };
            let least = cards
                .iter()
                .flat_map(|card| (1..=3).map(move |count| (card, f64::from(count))))
                .filter(|(card, n)| card.throughput.unwrap().0 * n >= need.throughput.0 - 1.0)
                .map(|(card, n)| card.active.unwrap().0 * n)
                .filter(|watts| *watts <= 20.0)
                .min_by(f64::total_cmp);
            let ours = choose(&cards, &need).unwrap();
            let ours = ours.iter().find(|c| c.fits()).map(|c| c.power.unwrap().0);
            assert_eq!(ours.map(|w| (w * 1e6).round()), least.map(|w| (w * 1e6).round()));
        }
    }

    #[test]
    fn invalid_need_is_refused() {
        let refused = |need: Need| choose(&[], &need).unwrap_err().to_string();
        assert!(refused(need(0.0)).contains("throughput is 0"));
        assert!(refused(need(f64::NAN)).contains("throughput is NaN"));
        assert_eq!(refused(Need { slots: 0, ..need(1.0) }), "slots is 0; allowed: 1 or more");
    }
}
