//! Texts that describe requests.

use proptest::prelude::*;
use wattline_traffic::requests::RequestSpec;

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}", tail in "(memcached|nginx):.{0,30}") {
        for text in [text, tail] {
            if let Ok(spec) = RequestSpec::parse(&text) {
                prop_assert!(spec.rate > 0.0 && spec.rate.is_finite() && spec.burst >= 1.0);
            }
        }
    }
}
