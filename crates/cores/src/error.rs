//! What can be wrong with a model as a platform.

use thiserror::Error;
use wattline_policy::{PlatformError, SpecError};
use wattline_server::{Application, ServerModel};

/// Why a server model cannot be brought to work.
#[derive(Debug, Error)]
pub enum ModelError {
    /// The server file gives no cost of this application.
    #[error("application \"{application}\": server {server} gives no cost for it (it has {known})")]
    Application {
        /// What was asked for.
        application: Application,
        /// Name of the server model.
        server: String,
        /// Applications that it has.
        known: String,
    },
    /// The server model is one that no policy could govern.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The policy cannot be made for this server.
    #[error(transparent)]
    Policy(#[from] SpecError),
}

impl ModelError {
    /// There is no cost of this application; says which there are.
    pub(crate) fn no_application(server: &ServerModel, application: Application) -> Self {
        let known: Vec<&str> = server.applications.keys().map(|known| known.name()).collect();
        Self::Application { application, server: server.name.clone(), known: known.join(", ") }
    }
}
