//! Errors in using a server model as a platform.

use thiserror::Error;
use wattline_policy::{PlatformError, SpecError};
use wattline_server::{Application, ServerModel};

/// Reasons why a server model cannot be simulated.
#[derive(Debug, Error)]
pub enum ModelError {
    /// The server file has no cost for this application.
    #[error("application \"{application}\": server {server} gives no cost for it (it has {known})")]
    Application {
        /// Requested application.
        application: Application,
        /// Name of the server model.
        server: String,
        /// Applications that the server model has.
        known: String,
    },
    /// No policy could govern a platform like this server model.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The policy cannot be built for this server.
    #[error(transparent)]
    Policy(#[from] SpecError),
}

impl ModelError {
    /// The error for an application without a cost; it lists those with one.
    pub(crate) fn no_application(server: &ServerModel, application: Application) -> Self {
        let known: Vec<&str> = server.applications.keys().map(|known| known.name()).collect();
        Self::Application { application, server: server.name.clone(), known: known.join(", ") }
    }
}
