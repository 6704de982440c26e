//! Choices with names.

/// Defines an enum whose values have names in files, in JSON and on the command line.
#[macro_export]
macro_rules! named {
    ($(#[$of:meta])* $vis:vis enum $choice:ident {
        $($(#[$about:meta])* $value:ident = $name:literal,)+
    }) => {
        $(#[$of])*
        $vis enum $choice {
            $($(#[$about])* $value,)+
        }

        impl $choice {
            /// All values, in order of definition.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Returns the name of the value.
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }
    };
}
