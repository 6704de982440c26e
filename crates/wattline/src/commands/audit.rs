//! `wattline audit`: compares a running router's decisions with its kernel's.

use super::ask::{Daemon, print_json};
use super::show;
use crate::exit::ExitError;
use crate::output;
use ipnet::IpNet;
use std::io::{self, BufWriter, Write};
use wattline_daemon::socket::Request;
use wattline_status::{AuditDecision, AuditDifference, AuditReport};

/// Addresses to compare.
#[derive(Debug, clap::Args)]
#[group(id = "addresses", required = true, multiple = false, args = ["prefix", "all"])]
pub struct Args {
    /// Addresses within this prefix: at and next to the ends of each route's prefix, and one at
    /// random.
    #[arg(value_name = "PREFIX", value_parser = show::prefix)]
    prefix: Option<IpNet>,
    /// Addresses of all routes.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let mut out = BufWriter::new(output::stdout());
    // Prints differences as they are found: comparing a large table takes time.
    let print = |event| -> Result<(), ExitError> {
        if let (false, Ok(difference)) = (json, serde_json::from_value(event)) {
            write_difference(&difference, &mut out)?;
            out.flush()?;
        }
        Ok(())
    };
    let request = Request::Audit { within: args.prefix };
    let report: AuditReport = args.daemon.wait_for(&request, print)?;
    if json { print_json(&mut out, &report) } else { write_sum(&report, &mut out) }?;
    out.flush()?;
    match report.total {
        0 if report.compared == 0 => Err(ExitError::new(
            ExitError::NOTHING_COMPARED,
            "no decision of the kernel was compared: this says nothing about either",
        )
        .after_result()),
        0 => Ok(()),
        differences => Err(ExitError::new(
            ExitError::DIFFERENCE,
            format_args!(
                "{differences} prefixes differ: their packets are left to the kernel until both agree"
            ),
        )
        .after_result()),
    }
}

fn write_difference(it: &AuditDifference, out: &mut impl Write) -> io::Result<()> {
    let ingress = it.ingress.as_deref().unwrap_or("-");
    writeln!(out, "{}: from {} to {}, in by {ingress}", it.prefix, it.source, it.destination)?;
    writeln!(out, "  kernel    {}", decision(&it.kernel))?;
    writeln!(out, "  wattline  {}", decision(&it.wattline))
}

fn write_sum(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    let AuditReport { compared, left_to_kernel, total, .. } = report;
    writeln!(
        out,
        "{total} prefixes differ; {compared} addresses compared, {left_to_kernel} left to the kernel"
    )?;
    for (why, count) in &report.not_compared {
        writeln!(out, "{count} not compared: {why}")?;
    }
    Ok(())
}

fn decision(decision: &AuditDecision) -> String {
    let hops = decision
        .next_hops
        .iter()
        .map(|hop| format!("via {} dev {}", hop.address, hop.interface.as_deref().unwrap_or("-")));
    let hops = hops.collect::<Vec<_>>().join(" or ");
    format!("{} {hops}", decision.action).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_status::AuditHop;

    #[test]
    fn both_answers_of_a_difference_are_shown() {
        let hop = |last: u8| AuditHop {
            interface: Some("eth1".to_owned()),
            address: [192, 0, 2, last].into(),
        };
        let difference = AuditDifference {
            prefix: "203.0.113.0/24".to_owned(),
            source: [198, 18, 0, 9].into(),
            destination: [203, 0, 113, 5].into(),
            ingress: Some("eth0".to_owned()),
            kernel: AuditDecision { action: "no route".to_owned(), next_hops: Vec::new() },
            wattline: AuditDecision {
                action: "forward".to_owned(),
                next_hops: vec![hop(1), hop(2)],
            },
        };
        let report = AuditReport {
            compared: 7,
            left_to_kernel: 2,
            not_compared: [("eth0: the kernel refuses the source".to_owned(), 3)].into(),
            differences: vec![difference],
            total: 1,
            ..AuditReport::default()
        };
        let mut out = Vec::new();
        write_difference(&report.differences[0], &mut out).unwrap();
        write_sum(&report, &mut out).unwrap();
        let expected = "203.0.113.0/24: from 198.18.0.9 to 203.0.113.5, in by eth0\n  \
                        kernel    no route\n  \
                        wattline  forward via 192.0.2.1 dev eth1 or via 192.0.2.2 dev eth1\n\
                        1 prefixes differ; 7 addresses compared, 2 left to the kernel\n\
                        3 not compared: eth0: the kernel refuses the source\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
