//! Errors as Python exceptions.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::{PyErr, create_exception};
use std::fmt::Display;
use wattline_server::LoadError;
use wattline_sim::SimError;
use wattline_traffic::capture::Problem;
use wattline_traffic::rates::RatesError;
use wattline_traffic::spec::BuildError;

create_exception!(
    wattline,
    Error,
    PyValueError,
    "Something in a description is wrong: which, where, and what is allowed."
);
create_exception!(
    wattline,
    PolicyError,
    Error,
    "A policy written in Python asked for something that cannot be; names its file and line."
);

/// A wrong description.
pub fn wrong(problem: impl Display) -> PyErr {
    Error::new_err(problem.to_string())
}

/// A file that cannot be read, as `OSError` with its number: Python makes `FileNotFoundError` and
/// the like from it.
pub fn unreadable(file: &str, cause: &std::io::Error) -> PyErr {
    let text = cause.to_string();
    // Python adds the number itself.
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((cause.raw_os_error(), text, file.to_owned()))
}

/// A server file that cannot be used.
pub fn of_load(error: LoadError) -> PyErr {
    match &error {
        LoadError::Unreadable { file, cause, hint } if hint.is_empty() => unreadable(file, cause),
        // The hint names the file that was meant; Python's OSError has no place for it.
        LoadError::Unreadable { .. } | LoadError::Invalid(_) | LoadError::Incomplete(_) => {
            wrong(error)
        }
    }
}

/// A simulation that cannot be run.
pub fn of_sim(error: SimError) -> PyErr {
    if let SimError::Source(BuildError::Rates(RatesError::Unreadable { file, cause })) = &error {
        return unreadable(&file.to_string_lossy(), cause);
    }
    let capture = match &error {
        SimError::Traffic(capture) | SimError::Source(BuildError::Capture(capture)) => capture,
        _ => return wrong(error),
    };
    match &capture.problem {
        Problem::Open(cause) | Problem::Io(cause) => {
            unreadable(&capture.file.to_string_lossy(), cause)
        }
        _ => wrong(error),
    }
}
