//! The SIMD instructions with which a batch is looked up.

use std::sync::OnceLock;

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

    /// The last of these that this processor has; no gathers where microcode slows them down.
    pub(crate) fn best_of(levels: &[Self]) -> Self {
        static GATHERS: OnceLock<bool> = OnceLock::new();
        let gathers = *GATHERS.get_or_init(|| {
            !slows_gathers(&std::fs::read_to_string(GATHER_DATA_SAMPLING).unwrap_or_default())
        });
        let usable = |level: &&Self| **level == Self::Scalar || gathers && level.is_available();
        levels.iter().rev().find(usable).copied().unwrap_or(Self::Scalar)
    }

    /// Whether this processor has the instructions.
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

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// File in which Linux reports Gather Data Sampling (CVE-2022-40982), a flaw of Intel's processors
/// from Skylake to Ice Lake (Documentation/admin-guide/hw-vuln/gather_data_sampling.rst).
const GATHER_DATA_SAMPLING: &str = "/sys/devices/system/cpu/vulnerabilities/gather_data_sampling";

/// Whether the microcode mitigates that flaw, which makes gathers slow.
fn slows_gathers(status: &str) -> bool {
    status.starts_with("Mitigation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_level_is_one_that_the_processor_has() {
        assert!(SimdLevel::Scalar.is_available());
        assert!(SimdLevel::best_of(&SimdLevel::ALL).is_available());
        assert_eq!(SimdLevel::best_of(&[]), SimdLevel::Scalar);
    }

    #[test]
    fn gathers_are_slow_where_they_are_mitigated() {
        assert!(slows_gathers("Mitigation: Microcode\n"));
        assert!(slows_gathers("Mitigation: Microcode (locked)\n"));
        for status in ["Not affected\n", "Vulnerable\n", "Vulnerable: No microcode\n", ""] {
            assert!(!slows_gathers(status), "{status}");
        }
    }
}
