//! How the fixed words of the API (labels, reasons, …) are declared: as constants for the code and, from
//! the same lines, as the tables of `docs/reference`.

/// One documented word of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The text as it appears in objects.
    pub value: &'static str,
    /// What it means, for users.
    pub doc: &'static str,
}

/// Declares documented string constants and collects them in `ALL`.
macro_rules! vocabulary {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: &str = $value;)+

        /// All words of this module, in the order of their declaration.
        pub const ALL: &[$crate::vocabulary::Word] =
            &[$($crate::vocabulary::Word { value: $value, doc: concat!($($doc),+) }),+];
    };
}
pub(crate) use vocabulary;
