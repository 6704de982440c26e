//! Wattline's simulator, policies and models for Python: the compiled half of the package
//! `wattline`. The Python half (`wattline/`) has the classes that users see.
//!
//! Reports pass as JSON, the same document that `wattline sim --json` prints: a key or a figure
//! cannot differ between the two.

mod arrow;
mod errors;
mod league;
mod limit;
mod machine;
mod models;
mod policy;
mod setting;
mod simulate;
mod stop;
mod view;

use pyo3::prelude::*;
use wattline_units::Build;

/// The module `wattline._wattline`.
#[pymodule]
fn _wattline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let build = Build::new(env!("CARGO_PKG_VERSION"), env!("WATTLINE_BUILD_COMMIT"));
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("__build__", build.to_string())?;
    build.set();
    module.add("Error", py.get_type::<errors::Error>())?;
    module.add("PolicyError", py.get_type::<errors::PolicyError>())?;
    module.add_class::<models::Server>()?;
    module.add_class::<models::Traffic>()?;
    module.add_class::<league::League>()?;
    module.add_class::<machine::Machine>()?;
    module.add_class::<setting::Setting>()?;
    module.add_class::<view::View>()?;
    module.add_class::<view::Queue>()?;
    module.add_class::<view::Core>()?;
    module.add_class::<view::Latency>()?;
    module.add_function(wrap_pyfunction!(league::is_league_page, module)?)?;
    module.add_function(wrap_pyfunction!(models::servers, module)?)?;
    module.add_function(wrap_pyfunction!(models::policies, module)?)?;
    module.add_function(wrap_pyfunction!(models::day_rates, module)?)?;
    module.add_function(wrap_pyfunction!(models::check_policy, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::sweep, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_stream, module)?)?;
    Ok(())
}
