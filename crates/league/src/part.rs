//! A part of a league: what one of several machines plays of it.

use std::fmt;
use std::str::FromStr;

/// The part of this number, from 1, of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub(crate) number: usize,
    pub(crate) of: usize,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        numbers
            .filter(|part| (1..=part.of).contains(&part.number))
            .ok_or_else(|| "allowed is K/N, the K-th of N parts, from 1/N to N/N".to_owned())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_of_as_many_as_there_are() {
        for text in ["1/1", "2/3", "3/3"] {
            assert_eq!(text.parse::<Part>().unwrap().to_string(), text);
        }
        for text in ["", "1", "0/3", "4/3", "1/0", "-1/3", "a/b", "1/2/3"] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }
}
