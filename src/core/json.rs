//! JSON that is made of parts. `json!` copies each part that is put into it, and a part of a part once more each time; here
//! parts are moved.

use serde_json::Value;

/// An object with these fields.
pub(crate) fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A list of these items.
pub(crate) fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::Array(items.into())
}
