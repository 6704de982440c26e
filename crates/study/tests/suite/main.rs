//! Fits, choices and the receive path. This is one program, so that it links once.

mod fit_never_panics;
mod fit_recovers;
mod optimise;
mod receive_path;
mod recorded;
mod spec_files;
