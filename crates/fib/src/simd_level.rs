//! SIMD instructions for batch lookups.

/// Implementation of the batch lookup; all give the same results on processors that have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// Portable: one load at a time, many of which overlap.
    Scalar,
    /// Eight loads at a time with the gathers of AVX2.
    Avx2,
    /// Sixteen loads at a time with the gathers of AVX-512.
    Avx512,
}

impl SimdLevel {
    /// All implementations, the portable one first.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// Returns true if this processor has the instructions.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// Implementation of a family that this process uses, and the measurement that decided.
#[derive(Debug)]
pub struct Choice {
    /// The widest implementation whose time is within an eighth of the fastest one's. If lookups
    /// wait for memory, wider implementations have more loads under way.
    pub level: SimdLevel,
    /// Lookups per second of each implementation that this processor has.
    pub rates: Vec<(SimdLevel, f64)>,
}
