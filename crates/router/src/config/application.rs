//! Configuration of an application.

use std::any::Any;
use std::fmt::Debug;
use std::panic::RefUnwindSafe;
use std::path::Path;

/// Configuration of one application.
pub trait Settings: SameSettings + Any + Debug + Send + Sync + RefUnwindSafe {
    /// Returns the section that messages name, such as `[ipsec]`.
    fn heading(&self) -> &'static str;

    /// Returns the indices of the ports whose received packets it has to see; `None` for all
    /// packets.
    fn ports(&self) -> Option<&[usize]> {
        None
    }

    /// Makes paths that are relative to the directory of this configuration file relative to the
    /// present directory.
    fn resolve_paths(&mut self, file: &Path) {
        let _ = file;
    }
}

/// Comparison of settings whose types are known only at run time.
pub trait SameSettings {
    /// Returns true if `other` has the same settings of the same application.
    fn is_same(&self, other: &dyn Settings) -> bool;
}

impl<T: Any + PartialEq> SameSettings for T {
    fn is_same(&self, other: &dyn Settings) -> bool {
        other.downcast() == Some(self)
    }
}

impl dyn Settings {
    /// Returns the settings as their own type.
    pub fn downcast<T: Any>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

impl PartialEq for dyn Settings {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}
