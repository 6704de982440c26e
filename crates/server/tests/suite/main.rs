//! Server models and their files. This is one program, so that it links once.

mod bad_files;
mod modern_server;
mod parts;
mod powersave_constraints;
mod published;
mod tables;
