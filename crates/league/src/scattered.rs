//! Pieces of a league that other machines play: their results travel as text.

use crate::error::LeagueError;
use crate::league::{Found, Piece, all_of, join};
use crate::pieces::Store;
use crate::plan::Plan;
use crate::rows::Results;
use crate::runs::Runs;

/// A league, piece by piece.
pub struct Scattered<'a> {
    plan: &'a Plan,
    all: Vec<Piece<'a>>,
}

impl<'a> Scattered<'a> {
    /// Lists the pieces of a plan, in an order that depends on the plan alone.
    ///
    /// # Errors
    /// When a policy cannot be read.
    pub fn new(plan: &'a Plan) -> Result<Self, LeagueError> {
        Ok(Self { plan, all: all_of(plan)? })
    }

    /// Returns everything that the results of the pieces depend on, except the build. Each capture
    /// is read once.
    ///
    /// # Errors
    /// When a capture cannot be read.
    pub fn keys(&self) -> Result<Vec<String>, LeagueError> {
        let store = Store::new(None)?;
        let runs = Runs::new(&store);
        self.all.iter().map(|piece| piece.key(self.plan, &runs)).collect()
    }

    /// Plays the piece with this index; the result is JSON.
    ///
    /// # Errors
    /// When there is no such piece, or one of its runs fails.
    pub fn play(&self, number: usize) -> Result<String, LeagueError> {
        let piece = self.all.get(number).ok_or(LeagueError::Absent)?;
        let found = piece.play(self.plan, &Runs::new(&Store::new(None)?))?;
        serde_json::to_string(&found).map_err(broken)
    }

    /// Joins the results of all pieces, in their order, into the results of
    /// [`play`](crate::league::play).
    ///
    /// # Errors
    /// When a result is missing, or belongs to another piece.
    pub fn join(&self, played: &[String]) -> Result<Results, LeagueError> {
        if played.len() != self.all.len() {
            return Err(LeagueError::Absent);
        }
        let found = played.iter().map(|text| serde_json::from_str::<Found>(text).map_err(broken));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        if !self.all.iter().zip(&found).all(|(piece, found)| found.is_of(piece)) {
            return Err(LeagueError::Absent);
        }
        Ok(join(self.plan, &self.all, found))
    }
}

fn broken(error: serde_json::Error) -> LeagueError {
    LeagueError::File { place: "piece".into(), problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::league;

    const TUNED: &str = r#"
        servers = ["westmere-2010"]
        policies = ["poll", "ovs-sleep"]
        traffics = ["poisson:1Mpps,size=64"]
        budgets = ["100us"]
        seeds = [1, 2]
        duration = "2ms"
        warmup = "1ms"
        [tuning]
        seeds = [3]
        duration = "2ms"
        grids = ["napi:cores=2|4"]
    "#;

    #[test]
    fn scattered_pieces_make_the_league_and_lost_or_swapped_ones_are_refused() {
        let plan = Plan::parse("tuned", TUNED).unwrap();
        let scattered = Scattered::new(&plan).unwrap();
        let keys = scattered.keys().unwrap();
        assert_eq!(keys.len(), league::pieces(&plan));
        let mut different = keys.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), keys.len());
        // Played in another order, as in a cluster.
        let mut played: Vec<_> = (0..keys.len()).rev().map(|at| scattered.play(at)).collect();
        played.reverse();
        let mut played: Vec<_> = played.into_iter().map(Result::unwrap).collect();
        let whole = league::play(&plan, &Store::new(None).unwrap(), 1, || {}).unwrap();
        assert_eq!(scattered.join(&played).unwrap(), whole);
        assert!(scattered.play(keys.len()).is_err());
        played.swap(0, 1);
        assert!(scattered.join(&played).is_err(), "a run in the place of an envelope");
        played.swap(0, 1);
        played.pop();
        assert!(scattered.join(&played).is_err(), "a piece is missing");
    }

    #[test]
    fn key_changes_with_everything_that_changes_the_piece() {
        let keys =
            |text: &str| Scattered::new(&Plan::parse("tuned", text).unwrap()).unwrap().keys();
        let own = keys(TUNED).unwrap();
        for (from, to) in [
            ("warmup = \"1ms\"", "warmup = \"2ms\""),
            ("\"100us\"", "\"110us\""),
            ("1Mpps,size=64", "1Mpps,size=80"),
        ] {
            let text = TUNED.replace(from, to);
            assert_ne!(text, TUNED);
            assert!(keys(&text).unwrap().iter().all(|key| !own.contains(key)), "{to}");
        }
        for (from, to) in [("seeds = [3]", "seeds = [4]"), ("cores=2|4", "cores=2|3")] {
            let others = keys(&TUNED.replace(from, to)).unwrap();
            let changed: Vec<_> = others.iter().filter(|key| !own.contains(key)).collect();
            assert_eq!(changed.len(), 1, "the rival alone: {changed:?}");
        }
    }
}
