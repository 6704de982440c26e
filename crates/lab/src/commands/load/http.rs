//! `wattline load http`.

use super::governor::ReportTo;
use super::options::{Options, make};
use super::page::page;
use crate::commands::page_file::PageFile;
use std::sync::Arc;
use wattline::exit::ExitError;
use wattline_requests::http::{Http, HttpOptions, HttpRequests, Url};

/// Pages and requests.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pages, as http://HOST[:PORT]/PATH. Connections go to the servers in turn; each requests the
    /// pages of its server in turn.
    #[arg(required = true, value_name = "URL")]
    urls: Vec<Url>,
    /// Use HEAD instead of GET.
    #[arg(long)]
    head: bool,
    /// A header field to send, as "NAME: VALUE"; may be given several times.
    #[arg(long = "header", value_name = "FIELD", value_parser = HttpOptions::field)]
    fields: Vec<String>,
    #[command(flatten)]
    options: Options,
}

impl Args {
    /// Returns the options of the load.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Describes the workload.
    pub fn described(&self) -> String {
        let method = if self.head { "HEAD" } else { "GET" };
        let fields: String = self.fields.iter().map(|field| format!(", {field}")).collect();
        format!("HTTP/1.1 {method}{fields}")
    }

    /// Prepares the requests, and describes the pages.
    pub fn prepare(&self) -> Result<(Arc<HttpRequests>, Vec<String>), ExitError> {
        let (urls, fields) = (self.urls.clone(), self.fields.clone());
        let asked = HttpOptions { urls, head: self.head, fields };
        let requests = HttpRequests::new(&asked)
            .map_err(|error| ExitError::new(ExitError::NO_INPUT, error))?;
        Ok((Arc::new(requests), self.urls.iter().map(ToString::to_string).collect()))
    }
}

/// Runs the command.
pub fn run(args: &Args, governor: &ReportTo, file: &PageFile, json: bool) -> Result<(), ExitError> {
    let options = args.options.load()?;
    file.check()?;
    let reporter = governor.reporter()?;
    let (requests, targets) = args.prepare()?;
    let report = make(
        ("http", targets),
        &options,
        &requests.addresses(),
        |thread| Http::new(Arc::clone(&requests), thread),
        reporter,
    )?;
    let method = if args.head { "HEAD" } else { "GET" };
    let pages = report.targets.len();
    let workload = format!("HTTP/1.1 {method} over persistent connections, {pages} page(s)");
    file.show(page(&report, &workload), &report, json)
}
