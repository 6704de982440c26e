//! Reasons why workers forward packets that XDP programs could forward.

/// Reason why workers forward all packets until a restart.
pub(super) struct ByWorkers {
    because: String,
    /// Obstacles in the configuration of the start, in words, and the last obstacles; `None` for
    /// any other reason.
    obstacles: Option<(String, Vec<&'static str>)>,
}

impl ByWorkers {
    /// Creates a reason that only a restart can remove.
    pub fn for_good(because: String) -> Self {
        Self { because, obstacles: None }
    }

    /// Creates a reason from obstacles in the configuration of the start.
    pub fn for_obstacles(obstacles: Vec<&'static str>) -> Self {
        let because = obstacles.join(", ");
        Self { obstacles: Some((because.clone(), obstacles)), because }
    }

    /// Updates the reason after a reload. Programs that were loaded without the maps still forward
    /// nothing by themselves, but obstacles that are gone are no longer named.
    pub fn set_obstacles(&mut self, obstacles: Vec<&'static str>) {
        let Some((at_start, last)) = &mut self.obstacles else { return };
        if *last == obstacles {
            return;
        }
        self.because = match obstacles.is_empty() {
            true => format!("{at_start}, as at the start; a restart lets XDP programs forward"),
            false => obstacles.join(", "),
        };
        *last = obstacles;
    }

    /// Returns the present reason.
    pub fn because(&self) -> &str {
        &self.because
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_for_forwarding_by_workers_follows_the_configuration() {
        let mut by_workers = ByWorkers::for_obstacles(vec!["[router] mode = \"poll\""]);
        by_workers.set_obstacles(vec!["[router] mode = \"poll\""]);
        assert_eq!(by_workers.because(), "[router] mode = \"poll\"");
        by_workers.set_obstacles(vec!["[[route]]", "[[neighbour]]"]);
        assert_eq!(by_workers.because(), "[[route]], [[neighbour]]");
        by_workers.set_obstacles(Vec::new());
        assert_eq!(
            by_workers.because(),
            "[router] mode = \"poll\", as at the start; a restart lets XDP programs forward"
        );
        let mut off = ByWorkers::for_good("[router] xdp_forward = \"off\"".to_owned());
        off.set_obstacles(vec!["[[route]]"]);
        assert_eq!(off.because(), "[router] xdp_forward = \"off\"");
    }
}
