//! Recovery of a machine whose governor was killed.

use crate::access::Access;
use crate::on_exit::{OnExit, fastest, policies};
use crate::restore::Report;
use crate::session::{Session, SessionError, changed, restore_now};
use std::path::Path;
use wattline_linux::sysfs::Tree;

/// Brings a machine to the state of `on_exit` after its governor was killed, by its journal.
///
/// # Errors
/// [`SessionError`]; single settings that fail are in the report.
pub fn leave<A: Access>(
    mut access: A,
    tree: &Tree,
    state: &Path,
    on_exit: OnExit,
) -> Result<Report, SessionError> {
    match on_exit {
        OnExit::Keep => Ok(Report::default()),
        OnExit::Restore => restore_now(&mut access, tree, state),
        OnExit::Performance => {
            let touched = policies(&changed(tree, state)?);
            let (mut session, report) = Session::begin(access, tree, state)?;
            // A policy that fails stays at its old value, which is no worse than a plain restore.
            session.apply(&fastest(tree, &touched));
            session.keep();
            Ok(report)
        }
    }
}
