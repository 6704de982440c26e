//! `wattline generate`, hidden: manual pages, completions and the reference page of the command
//! line, for packages and for the documentation.

mod reference;

pub use reference::reference;

use crate::exit::ExitError;
use crate::output;
use clap_complete::Shell;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Files to make.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Manual pages, one for each command, into this directory.
    Man { folder: PathBuf },
    /// Completions for bash, zsh and fish into this directory.
    Completions { folder: PathBuf },
    /// The reference page, in Markdown, to standard output.
    Reference,
}

/// Runs the command; `line` is the whole command line.
pub fn run(args: &Args, json: bool, line: &clap::Command) -> Result<(), ExitError> {
    output::text_alone(json, "what `generate` makes", "")?;
    match &args.what {
        What::Man { folder } => man(line, folder)?,
        What::Completions { folder } => completions(line, folder)?,
        What::Reference => output::stdout().write_all(reference(line).as_bytes())?,
    }
    Ok(())
}

/// Writes `wattline.1`, `wattline-sim.1` and so on; hidden commands have no page.
pub fn man(line: &clap::Command, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(line.clone().disable_help_subcommand(true), folder)
}

/// Writes a file for each shell.
pub fn completions(line: &clap::Command, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut line.clone(), "wattline", folder)?;
    }
    Ok(())
}
