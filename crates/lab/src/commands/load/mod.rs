//! `wattline load`: open-loop load with a latency probe.

mod governor;
pub mod http;
pub mod memcached;
pub mod options;
mod packets;
mod packets_page;
mod packets_report;
mod packets_show;
mod page;
mod show;

use crate::commands::page_file::PageFile;
use governor::ReportTo;
use wattline::exit::ExitError;

/// Server to load.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    server: Server,
}

#[derive(Debug, clap::Subcommand)]
enum Server {
    /// Gets and sets of memcached; by default sizes and mix of Facebook's pool ETC.
    Memcached(Standalone<memcached::Args>),
    /// Pages of HTTP/1.1 servers over persistent connections.
    Http(Standalone<http::Args>),
    /// Packets through a forwarding device, each accounted for. Needs root.
    Packets(packets::Args),
}

/// A load with optional latency reports to a governor and a page.
#[derive(Debug, clap::Args)]
struct Standalone<A: clap::Args> {
    #[command(flatten)]
    load: A,
    #[command(flatten)]
    governor: ReportTo,
    #[command(flatten)]
    page: PageFile,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    match &args.server {
        Server::Memcached(args) => memcached::run(&args.load, &args.governor, &args.page, json),
        Server::Http(args) => http::run(&args.load, &args.governor, &args.page, json),
        Server::Packets(args) => packets::run(args, json),
    }
}
