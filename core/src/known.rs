//! What is known of something on a plane. Not to know is not the same as to know that it is not there.

/// What is known of something on a plane.
///
/// Only a [`Proof`] makes something absent, and only what has looked at all of a plane may give one; a test sees to it.
/// Whoever decides on this has three cases to think of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known<T> {
    /// It is there.
    Present(T),
    /// It is not there: the plane has been looked at as a whole.
    Absent(Proof),
    /// Nobody can tell; why, in words that end a sentence. What is there stays, and what waits for it waits.
    Unknown(String),
}

/// Somebody has looked at all of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

impl Proof {
    /// For whoever has read the whole of what a plane serves, after it said that it is ready, and the list of its
    /// definitions.
    pub const fn of_a_complete_look() -> Self {
        Self(())
    }
}

impl<T> Known<T> {
    /// The same of something else that is there if and only if this is.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Known<U> {
        match self {
            Self::Present(it) => Known::Present(of(it)),
            Self::Absent(proof) => Known::Absent(proof),
            Self::Unknown(why) => Known::Unknown(why),
        }
    }

    /// What is there, for whoever shows it or asks it and concludes nothing if there is nothing.
    pub fn if_present(self) -> Option<T> {
        match self {
            Self::Present(it) => Some(it),
            Self::Absent(_) | Self::Unknown(_) => None,
        }
    }
}
