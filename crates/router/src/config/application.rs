//! Configuration of an application.

use std::any::Any;
use std::fmt::Debug;
use std::panic::RefUnwindSafe;
use std::path::Path;

/// Configuration of one application.
pub trait Settings: SameSettings + Any + Debug + Send + Sync + RefUnwindSafe {
    /// The section that stands for it in messages, such as `[ipsec]`.
    fn heading(&self) -> &'static str;

    /// Indices of the ports whose received packets it has to see; `None` for all packets.
    fn ports(&self) -> Option<&[usize]> {
        None
    }

    /// Makes paths that are relative to the directory of this configuration file relative to the
    /// present directory.
    fn resolve_paths(&mut self, file: &Path) {
        let _ = file;
    }
}

/// Comparison of settings whose types are known at run time alone.
pub trait SameSettings {
    /// Returns true if the other says the same of the same application.
    fn is_same(&self, other: &dyn Settings) -> bool;
}

impl<T: Any + PartialEq> SameSettings for T {
    fn is_same(&self, other: &dyn Settings) -> bool {
        other.downcast() == Some(self)
    }
}

impl dyn Settings {
    /// As what it is.
    pub fn downcast<T: Any>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

impl PartialEq for dyn Settings {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}
