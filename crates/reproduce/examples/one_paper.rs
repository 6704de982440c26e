//! Reproduces the named papers or figures and prints every check and verdict. Use it to look at one
//! paper while working on its model, without building the rest of the program.

use wattline_report::Basis;
use wattline_reproduce::{Progress, Target, reproduce, reproduce_changed, write};

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let targets: Result<Vec<Vec<Target>>, _> =
        names.iter().map(|name| Target::named(name)).collect();
    let targets = targets.map(|targets| targets.concat());
    let started = std::time::Instant::now();
    let told = |progress: Progress<'_>| {
        eprintln!("{:7.1} s  {progress:?}", started.elapsed().as_secs_f64());
    };
    let change = std::env::var("CHANGE").ok();
    let made = targets.and_then(|targets| match &change {
        Some(change) => reproduce_changed(&targets, change, told),
        None => reproduce(&targets, told),
    });
    match made {
        Err(error) => eprintln!("{error}"),
        Ok(results) => {
            for figure in results.iter().flat_map(|result| &result.figures) {
                for check in &figure.checks {
                    println!(
                        "{:9} {:10} {:14} {}: {} (published {}) {}",
                        figure.id,
                        check.basis.map_or("-", Basis::text),
                        check.verdict.text(),
                        check.quantity,
                        check.ours,
                        check.published,
                        check.note
                    );
                }
            }
            if let Some(out) = std::env::var_os("OUT")
                && let Err(error) =
                    write(&results, std::path::Path::new(&out), "cargo run --example one_paper")
            {
                eprintln!("{error}");
            }
        }
    }
    eprintln!("{:7.1} s", started.elapsed().as_secs_f64());
}
