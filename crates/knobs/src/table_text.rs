//! The text of an indirection table: the numbers of the receive queues, with commas between them.

/// Formats a table as the value of its setting.
pub fn to_text(queues: &[u32]) -> String {
    queues.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Parses a table from the value of its setting; `None` if it is invalid.
pub fn from_text(text: &str) -> Option<Vec<u32>> {
    text.split(',').map(|queue| queue.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tables_read_back(queues in prop::collection::vec(any::<u32>(), 1..300)) {
            prop_assert_eq!(from_text(&to_text(&queues)), Some(queues));
        }

        #[test]
        fn any_text_is_read_without_panic(text: String) {
            from_text(&text);
        }
    }
}
