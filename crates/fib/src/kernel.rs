//! Which instructions look a batch up.

/// How a reader looks up: every kernel finds the same, on processors that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Portable: one load at a time, many of them in flight.
    Scalar,
    /// Sixteen loads at a time, by the gathers of AVX-512.
    Avx512,
}

impl Kernel {
    /// All of them, the portable one first.
    pub const ALL: [Self; 2] = [Self::Scalar, Self::Avx512];

    /// The one that is fastest where it was measured, among those that this processor has.
    pub fn best() -> Self {
        if Self::Avx512.is_available() { Self::Avx512 } else { Self::Scalar }
    }

    /// Whether this processor has its instructions.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 => false,
        }
    }

    /// As in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx512 => "avx512",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_kernel_is_one_that_the_processor_has() {
        assert!(Kernel::Scalar.is_available());
        assert!(Kernel::best().is_available());
    }
}
