//! Counters with one definition for the workers that count and for the readers.

/// Defines a struct of counters: of numbers by default, or of cells that a worker writes.
macro_rules! counts {
    ($(#[$about:meta])+ $name:ident { $($(#[$doc:meta])+ $field:ident,)+ }) => {
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        $(#[$about])+
        pub struct $name<T = u64> {
            $($(#[$doc])+ pub $field: T,)+
        }

        impl<T> $name<T> {
            /// Converts every counter.
            pub fn map<U>(&self, convert: impl Fn(&T) -> U) -> $name<U> {
                $name { $($field: convert(&self.$field),)+ }
            }
        }

        impl $name {
            /// Adds the counts of another worker.
            pub fn merge(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
                counts.fold(Self::default(), |mut sum, counts| {
                    sum.merge(&counts);
                    sum
                })
            }
        }
    };
}

pub(super) use counts;
