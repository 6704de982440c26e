//! Cryptography of many packets side by side, by Intel's multi-buffer library (libipsec-mb): AES-GCM,
//! and AES-CBC with HMAC.
//!
//! The encryption of CBC goes from block to block, and so does a hash: one packet keeps few of the
//! processor's units busy. The library fills them with up to 16 packets at once.
//!
//! A [`Manager`] belongs to one thread at a time; a [`Key`] is shared by all. The library is found
//! at run time (`library`), so no build needs it. Unsafe code loads it, calls its functions, and
//! passes it the packets of a [`Batch`].

mod batch;
mod key;
mod library;
mod manager;

pub use batch::{Batch, MOST, TAG};
pub use key::{Cipher, Integrity, Key, Mode};
pub use manager::{JobsFailed, Manager, name};
