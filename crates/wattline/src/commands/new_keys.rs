//! `wattline new-keys`: declare that keys of IPsec tunnels were never used.

use crate::applications;
use crate::exit::ExitError;
use crate::output;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use wattline_ipsec::{IpsecSettings, declare_new};

/// The tunnels.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The router's configuration.
    config: PathBuf,
    /// Tunnels whose keys are new and were never used, on no machine.
    #[arg(required = true)]
    tunnels: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let config = applications::load(&args.config)?;
    let Some(settings) = config.of::<IpsecSettings>() else {
        let message = format!("{} has no [[ipsec_tunnel]]", args.config.display());
        return Err(ExitError::new(ExitError::CONFIG, message));
    };
    let keys = declare_new(settings, &args.tunnels)
        .map_err(|errors| ExitError::new(ExitError::CONFIG, errors.join("\n")))?;
    let listed: Vec<_> = keys
        .iter()
        .map(|key| json!({ "tunnel": key.tunnel, "key": key.key, "new": key.is_new }))
        .collect();
    output::print(&json!({ "keys": listed }), json, |out, _| {
        for key in &keys {
            let state = match key.is_new {
                true => "new",
                false => "known before, its use so far still counts",
            };
            writeln!(out, "{}: {}: {state}", key.tunnel, key.key)?;
        }
        Ok(())
    })
}
