//! JSON that is made of parts. `json!` copies each part that is put into it, and a part of a part once more each time; here
//! parts are moved.

use serde_json::{Map, Value};

/// An object with these fields.
pub(crate) fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    // One by one: a collection of few fields would be sorted in a list of its own first.
    let mut map = Map::new();
    for (name, value) in fields {
        map.insert(name.to_owned(), value);
    }
    Value::Object(map)
}

/// A list of these items.
pub(crate) fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::Array(items.into())
}
