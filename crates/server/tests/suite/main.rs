//! Server models, their files and fits. This is one program, so that it links once.

mod bad_files;
mod fit_never_panics;
mod fit_recovers;
mod modern_server;
mod optimise;
mod powersave_constraints;
mod published;
mod receive_path;
mod recorded;
mod sohan_and_liao;
mod spec_files;
mod tables;
