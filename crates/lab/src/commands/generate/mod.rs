//! `wattline generate`, hidden: manual pages, completions and the reference page of the command
//! line, for packages and for the documentation.

mod reference;

pub use reference::reference;

use clap::Command;
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use wattline::exit::ExitError;
use wattline::{laboratory, output};

/// Files to generate.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    target: Target,
}

#[derive(Debug, clap::Subcommand)]
enum Target {
    /// Manual pages, one for each command, into a directory for each program below this one.
    Man { folder: PathBuf },
    /// Completions for bash, zsh and fish into this directory.
    Completions { folder: PathBuf },
    /// The reference page, in Markdown, to standard output.
    Reference,
}

/// Runs the command; `whole` is the command line of both programs.
pub fn run(args: &Args, json: bool, whole: &Command) -> Result<(), ExitError> {
    output::text_alone(json, "output of `generate`", "")?;
    match &args.target {
        Target::Man { folder } => man(whole, folder)?,
        Target::Completions { folder } => completions(whole, folder)?,
        Target::Reference => output::stdout().write_all(reference(whole).as_bytes())?,
    }
    Ok(())
}

/// Writes `wattline/wattline.1`, `wattline-lab/wattline-sim.1` and so on; hidden commands have no page.
pub fn man(line: &Command, folder: &Path) -> io::Result<()> {
    let operator = folder.join("wattline");
    let own = folder.join(laboratory::PROGRAM);
    std::fs::create_dir_all(&operator)?;
    std::fs::create_dir_all(&own)?;
    clap_mangen::generate_to(line.clone().disable_help_subcommand(true), &operator)?;
    for entry in std::fs::read_dir(&operator)? {
        let entry = entry?;
        if is_of_laboratory(&entry.file_name().to_string_lossy()) {
            std::fs::rename(entry.path(), own.join(entry.file_name()))?;
        }
    }
    let page = std::fs::File::create(own.join(format!("{}.1", laboratory::PROGRAM)))?;
    let about = "The laboratory of Wattline: models, simulation, measurements and papers";
    let called =
        "Its commands are called as `wattline COMMAND`, which hands them over: see wattline(1).";
    let own_line = Command::new(laboratory::PROGRAM).about(about).after_help(called);
    let own_line = own_line.version(env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(own_line).render(&mut &page)
}

/// Returns true if a page such as `wattline-bench-fib.1` describes a command of the laboratory.
fn is_of_laboratory(page: &str) -> bool {
    let mut words = page.trim_end_matches(".1").split('-').skip(1);
    words.next().is_some_and(|word| laboratory::COMMANDS.iter().any(|(name, _)| *name == word))
}

/// Writes a file for each shell: the commands of both programs are called as `wattline`.
pub fn completions(whole: &Command, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut whole.clone(), "wattline", folder)?;
    }
    Ok(())
}
