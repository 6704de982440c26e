//! Distances between two uses of a line.

use super::cache::Line;
use super::data::{Data, Distance, Phase};

/// The distances given in the paper: of SKBs at conversion, of page structures at release.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    /// Accesses to the last-level cache so far.
    pub accesses: u64,
    pub distance: [Distance; 2],
    last_use: [Vec<u64>; 2],
}

impl Reuse {
    /// Measures the distance of an access that missed level 1.
    #[inline]
    pub fn measure(&mut self, phase: Phase, data: Data, line: Line) {
        let index = match (phase, data) {
            (Phase::Conversion, Data::Skb) => 0,
            (Phase::Release, Data::Page) => 1,
            _ => return,
        };
        let last = self.last_use[index].get(Data::offset(line)).copied().unwrap_or(0);
        let distance = self.accesses - last;
        if last > 0 && distance > Distance::LONG {
            self.distance[index].count += 1;
            self.distance[index].sum += distance;
        }
    }

    /// Records a use.
    #[inline]
    pub fn note(&mut self, data: Data, line: Line) {
        let index = match data {
            Data::Skb => 0,
            Data::Page => 1,
            _ => return,
        };
        let (at, uses) = (Data::offset(line), &mut self.last_use[index]);
        if uses.len() <= at {
            uses.resize(at + 1, 0);
        }
        uses[at] = self.accesses;
    }
}
