//! `wattline servers`: the shipped server models, with the origin of each figure.

use super::server_errors;
use serde_json::{Value, json};
use std::io::Write;
use wattline::exit::ExitError;
use wattline::output;
use wattline_report::columns::{Columns, text};
use wattline_server::library::{self, Kind};
use wattline_server::{Figure, FigureValue, ServerFile};

/// Model to show.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A shipped model or a file: shows its figures. Without it, all shipped models.
    name: Option<String>,
    /// Print the file itself, as a start for your own.
    #[arg(long, requires = "name")]
    toml: bool,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let mut out = output::stdout();
    let Some(name) = &args.name else {
        return list(&mut out, json);
    };
    if args.toml {
        output::text_alone(json, "--toml", ", or --toml for the figures as JSON")?;
        // Loaded before it is printed, so that a file with mistakes is refused here too.
        ServerFile::load(name).map_err(server_errors::config_error)?;
        let text = match library::text_of(name, Kind::Servers) {
            Some(text) => text.to_string(),
            None => wattline_files::read_text(name.as_ref(), wattline_files::MOST_TEXT)?,
        };
        write!(out, "{text}")?;
        return Ok(());
    }
    let file = ServerFile::load(name).map_err(server_errors::config_error)?;
    if json {
        let value = json!({
            "name": file.name,
            "description": file.description,
            "source": file.source,
            "uses": uses(&file),
            "figures": file.figures,
        });
        output::document(&mut out, &value)?;
        return Ok(());
    }
    writeln!(out, "{}: {}\nfrom {}\n", file.name, file.description, file.source)?;
    write!(out, "{}", figures(&file.figures, ""))?;
    if let Err(missing) = file.model() {
        writeln!(out, "\n{missing}")?;
    }
    Ok(())
}

fn list(out: &mut impl Write, json: bool) -> Result<(), ExitError> {
    let mut all = Vec::new();
    for name in library::names(Kind::Servers) {
        all.push(ServerFile::load(name).map_err(server_errors::config_error)?);
    }
    if json {
        let servers: Vec<Value> = all
            .iter()
            .map(|file| {
                json!({
                    "name": file.name,
                    "description": file.description,
                    "source": file.source,
                    "uses": uses(file),
                    "missing": file.missing_figures("").len(),
                })
            })
            .collect();
        output::document(out, &json!({ "servers": servers }))?;
        return Ok(());
    }
    let mut table = Columns::new([text("name"), text("complete for"), text("description")]);
    for file in &all {
        let uses = uses(file);
        let ready = if uses.is_empty() { "-".to_string() } else { uses.join(", ") };
        table.row([file.name.clone(), ready, file.description.clone()]);
    }
    write!(out, "{table}")?;
    Ok(())
}

/// Lists a file's possible uses.
fn uses(file: &ServerFile) -> Vec<&'static str> {
    let mut uses = Vec::new();
    if file.model().is_ok() {
        uses.extend(["sim", "optimise"]);
    } else if file.bolla().is_ok() {
        uses.push("optimise");
    }
    uses
}

/// Tabulates figures with their origin, without the `section` before their fields.
pub(super) fn figures<'f>(figures: impl IntoIterator<Item = &'f Figure>, section: &str) -> Columns {
    let row = |figure: &Figure| {
        let (value, origin, note) = cells(figure);
        [figure.field.trim_start_matches(section).to_owned(), value, origin.to_owned(), note]
    };
    let heads = ["field", "value", "origin", "note"];
    Columns::of(heads, heads.len(), figures.into_iter().map(row))
}

fn cells(figure: &Figure) -> (String, &'static str, String) {
    let note = figure.note.clone().unwrap_or_default();
    match &figure.value {
        FigureValue::Number(number) => (number.to_string(), figure.origin.name(), note),
        FigureValue::List(numbers) => {
            let (first, last) = (numbers.first(), numbers.last());
            let text = match (first, last) {
                (Some(first), Some(last)) if numbers.len() > 4 => {
                    format!("{first} .. {last} ({} values)", numbers.len())
                }
                _ => format!("{numbers:?}"),
            };
            (text, figure.origin.name(), note)
        }
        FigureValue::Missing(reason) => ("-".to_string(), "missing", reason.clone()),
    }
}
