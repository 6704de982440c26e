//! `wattline nics model FILE`: predictions of a NetPowerBench power model.

use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use wattline::exit::ExitError;
use wattline::output;
use wattline_report::columns::{Columns, cell, number, text};
use wattline_study::cards::{DevicePowerModel, PortState, PowerModelError};
use wattline_units::{BitsPerSecond, PacketsPerSecond};

/// Model and operating conditions.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file (`power_model.yml`).
    file: PathBuf,
    /// Print it as nested YAML, whatever its layout was.
    #[arg(long)]
    yaml: bool,
    /// Interface, such as QSFP28/PCC/100G; not needed if there is only one.
    #[arg(long, value_name = "PORT/TRX/SPEED")]
    interface: Option<String>,
    /// Print the power of the device with this many active ports.
    #[arg(long)]
    ports: Option<u16>,
    /// Rate of each of them in each direction, in frame bits, such as 10Gbit/s.
    #[arg(long, value_name = "RATE", requires = "ports", default_value = "0bit/s")]
    rate: BitsPerSecond,
    /// Frame length in bytes.
    #[arg(long, default_value_t = 1518, value_parser = clap::value_parser!(u32).range(64..=9216))]
    size: u32,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let model = load(&args.file)?;
    if args.yaml {
        let yaml = model.to_yaml().map_err(refused)?;
        return output::print(&model, json, |out, _| write!(out, "{yaml}"));
    }
    let prediction = args.ports.map(|ports| predict(&model, args, ports)).transpose()?;
    let value = json!({ "model": model, "prediction": prediction });
    output::print(&value, json, |out, _| {
        writeln!(out, "{}", model.device)?;
        let mut table = Columns::new([
            text("interface"),
            number("base W"),
            number("port W"),
            number("trx in W"),
            number("trx up W"),
            number("bit pJ"),
            number("packet nJ"),
            number("offset W"),
        ]);
        for interface in &model.interfaces {
            if let Some(other) = &interface.stand_in {
                let mut cells: [String; 8] = Default::default();
                cells[0] = format!("{} as {}", interface.name(), other.join("/"));
                table.row(cells);
                continue;
            }
            let terms = &interface.terms;
            table.row([
                interface.name().to_string(),
                cell(terms.base, 2),
                cell(terms.port, 3),
                cell(terms.transceiver_in, 3),
                cell(terms.transceiver_up, 3),
                cell(terms.energy_per_bit.map(|joules| joules * 1e12), 3),
                cell(terms.energy_per_packet.map(|joules| joules * 1e9), 3),
                cell(terms.offset, 3),
            ]);
        }
        write!(out, "{table}")?;
        if let Some(prediction) = &prediction {
            writeln!(out, "\n{} W (modelled)", prediction["power_watts"])?;
        }
        Ok(())
    })
}

fn predict(model: &DevicePowerModel, args: &Args, ports: u16) -> Result<Value, ExitError> {
    let interface = model.interface(args.interface.as_deref()).map_err(refused)?;
    let packets = PacketsPerSecond(args.rate.0 / 8.0 / f64::from(args.size));
    let port = PortState { up: true, rate: args.rate, packets };
    let above = interface.power(&vec![port; usize::from(ports)]).map_err(refused)?;
    let base = interface.terms.base.unwrap_or_default();
    Ok(json!({
        "interface": interface.name(),
        "ports": ports,
        "rate_bits_per_second": args.rate,
        "rate_pps": packets,
        "power_watts": ((base + above.0) * 1e6).round() / 1e6,
        "source": "modelled",
    }))
}

fn load(path: &Path) -> Result<DevicePowerModel, ExitError> {
    let text = wattline_files::read_text(path, wattline_files::MOST_TEXT)
        .map_err(|error| ExitError::no_input(path, &error))?;
    DevicePowerModel::parse(&path.display().to_string(), &text).map_err(refused)
}

fn refused(error: PowerModelError) -> ExitError {
    let code = match error {
        PowerModelError::NoInterface { .. } => ExitError::USAGE,
        _ => ExitError::DATA,
    };
    ExitError::new(code, error)
}
