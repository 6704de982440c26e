//! `wattline load`: open-loop load with a latency probe.

pub mod http;
pub mod memcached;
pub mod options;
mod packets;
mod packets_show;
mod show;

use crate::exit::ExitError;

/// What to load.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    server: Server,
}

#[derive(Debug, clap::Subcommand)]
enum Server {
    /// Gets and sets of memcached; by default sizes and mix of Facebook's pool ETC.
    Memcached(memcached::Args),
    /// Pages of HTTP/1.1 servers over persistent connections.
    Http(http::Args),
    /// Packets through a forwarding device, each accounted for. Needs root.
    Packets(packets::Args),
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    match &args.server {
        Server::Memcached(args) => memcached::run(args, json),
        Server::Http(args) => http::run(args, json),
        Server::Packets(args) => packets::run(args, json),
    }
}
