//! The search for histories that end in a difference, and for the shortest form of each.

use super::generator::{self, Random};

/// Commands of a random history.
const LENGTH: usize = 20;

/// Plays `histories` random histories, until there are `most` differences; prints each and returns
/// its shortest form. `play` returns the first difference of a history, as the number of the step
/// and a description. Its second argument is true for a shorter form of a played history.
pub fn differences(
    histories: u64,
    default_seed: u64,
    most: usize,
    mut play: impl FnMut(&[String], bool) -> Option<(usize, String)>,
) -> Vec<String> {
    let seed = number("WATTLINE_SEED", default_seed);
    let mut differences = Vec::new();
    for history in 0..histories {
        let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(history));
        let mut steps = generator::history(&mut random, LENGTH);
        let Some((last, difference)) = play(&steps, false) else { continue };
        println!("seed {seed}, history {history}: {difference}\n{}", steps.join("\n"));
        steps.truncate(last + 1);
        let (steps, difference) = shrink(steps, difference, |steps| play(steps, true));
        println!("shrunk: {difference}\n{}\n", steps.join("\n"));
        differences.push(difference);
        if differences.len() >= most {
            break;
        }
    }
    differences
}

/// Removes steps as long as a difference remains.
fn shrink(
    mut steps: Vec<String>,
    mut difference: String,
    mut play: impl FnMut(&[String]) -> Option<(usize, String)>,
) -> (Vec<String>, String) {
    let mut place = 0;
    while place < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(place);
        match play(&fewer) {
            Some((last, found)) => {
                fewer.truncate(last + 1);
                (steps, difference) = (fewer, found);
            }
            None => place += 1,
        }
    }
    (steps, difference)
}

/// Returns the number in an environment variable.
pub fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
