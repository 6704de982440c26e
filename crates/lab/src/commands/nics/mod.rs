//! `wattline nics`: network cards, their power, and the choice of a card.

mod choose;
mod compare;
mod list;
mod model;

use super::server_errors;
use list::ShowArgs;
use wattline::exit::ExitError;
use wattline_server::ComponentFile;

/// Action on cards.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A card, by its name or part number: shows its figures, as `nics show` does. Without it, all
    /// cards.
    name: Option<String>,
    #[command(subcommand)]
    action: Option<Action>,
    /// Shipped component data or a file with `[[card]]` sections.
    #[arg(long, global = true, value_name = "NAME|FILE", default_value = "sohan-2010-nics")]
    cards: String,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show a card's figures with their origin, and derived figures.
    Show(ShowArgs),
    /// Find the card that carries a throughput within budgets of CPU, slots and power.
    Choose(choose::Args),
    /// Compare media, offload, links, ports, and 1G with 10G.
    Compare,
    /// Read a NetPowerBench power model and compute the device's power.
    Model(model::Args),
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let cards = || ComponentFile::load(&args.cards).map_err(server_errors::config_error);
    if let (Some(name), Some(_)) = (&args.name, &args.action) {
        let message = format!("{name}: a card stands alone, or behind `nics show`");
        return Err(ExitError::new(ExitError::USAGE, message));
    }
    match &args.action {
        None => match &args.name {
            Some(name) => list::show(&cards()?, &ShowArgs::new(name), json),
            None => list::list(&cards()?, json),
        },
        Some(Action::Show(show)) => list::show(&cards()?, show, json),
        Some(Action::Choose(need)) => choose::run(&cards()?, need, json),
        Some(Action::Compare) => compare::run(&cards()?, json),
        Some(Action::Model(model)) => model::run(model, json),
    }
}
