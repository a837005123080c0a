//! Clients written in Go send empty strings and empty objects for what nobody set. They mean "unset":
//! these readers turn them into `None`.

use serde::{Deserialize, Deserializer};

/// Reads a value that equals its type's default as `None`.
pub fn none_if_default<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialEq,
{
    Ok(Option::<T>::deserialize(deserializer)?.filter(|value| *value != T::default()))
}
