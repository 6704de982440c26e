//! The build of a daemon, for Prometheus.

use super::exposition::{Exposition, Kind};
use wattline_status::Build;

/// Writes the build as the labels of a sample; its commit is empty if it is unknown.
pub fn build_info(to: &mut Exposition, build: &Build) {
    to.family("wattline_build_info", Kind::Gauge, "Build of the daemon: always 1.");
    let labels = [
        ("version", build.version.as_str()),
        ("commit", build.commit.as_deref().unwrap_or_default()),
        ("modified", if build.modified { "true" } else { "false" }),
    ];
    to.sample(&labels, 1.0);
}
