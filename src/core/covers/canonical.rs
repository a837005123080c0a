//! One spelling for each JSON value.

use kantor_api::annotations;
use serde_json::{Map, Number, Value};

/// Canonical JSON of `value`: keys sorted, fields of maps that are null left out, numbers in one spelling.
pub fn text(value: &Value) -> String {
    write(value, Part::Inner)
}

/// Canonical JSON of an intent without the annotation that has its hash. An intent is the same before and after
/// it got its annotation: annotations and metadata that are empty without it are left out as well.
pub fn intent(value: &Value) -> String {
    write(value, Part::Object)
}

/// A spelling of `number` that whole numbers share, whether they are written as integers or as floats.
pub fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            if float == 0.0 {
                "0".to_owned()
            } else if float.fract() == 0.0 && float.abs() < 1e20 {
                format!("{float:.0}")
            } else {
                format!("{float:e}")
            }
        }
        _ => number.to_string(),
    }
}

/// Which part of an intent a value is.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Object,
    Metadata,
    Annotations,
    Inner,
}

impl Part {
    fn of_field(self, name: &str) -> Self {
        match (self, name) {
            (Self::Object, "metadata") => Self::Metadata,
            (Self::Metadata, "annotations") => Self::Annotations,
            _ => Self::Inner,
        }
    }

    /// Whether the field of this name and value counts.
    fn keeps(self, name: &str, value: &Value) -> bool {
        let part = self.of_field(name);
        match value {
            Value::Null => false,
            _ if self == Self::Annotations => name != annotations::INTENT_HASH,
            Value::Object(fields) if part != Self::Inner => part.keeps_any(fields),
            _ => true,
        }
    }

    fn keeps_any(self, fields: &Map<String, Value>) -> bool {
        fields.iter().any(|(name, value)| self.keeps(name, value))
    }
}

enum Piece<'a> {
    Value(&'a Value, Part),
    Name(&'a str),
    Text(&'static str),
}

/// Writes with a stack of its own, because there is no limit to how deep a value is.
fn write(value: &Value, part: Part) -> String {
    let mut out = String::new();
    let mut rest = vec![Piece::Value(value, part)];
    while let Some(piece) = rest.pop() {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Name(name) => {
                push_string(&mut out, name);
                out.push(':');
            }
            Piece::Value(Value::Object(fields), part) => {
                let mut fields: Vec<_> =
                    fields.iter().filter(|(name, value)| part.keeps(name, value)).collect();
                fields.sort_unstable_by_key(|(name, _)| *name);
                out.push('{');
                rest.push(Piece::Text("}"));
                for (index, (name, value)) in fields.into_iter().enumerate().rev() {
                    rest.push(Piece::Value(value, part.of_field(name)));
                    rest.push(Piece::Name(name));
                    rest.push(Piece::Text(if index == 0 { "" } else { "," }));
                }
            }
            Piece::Value(Value::Array(items), _) => {
                out.push('[');
                rest.push(Piece::Text("]"));
                for (index, item) in items.iter().enumerate().rev() {
                    rest.push(Piece::Value(item, Part::Inner));
                    rest.push(Piece::Text(if index == 0 { "" } else { "," }));
                }
            }
            Piece::Value(Value::String(text), _) => push_string(&mut out, text),
            Piece::Value(Value::Number(value), _) => out.push_str(&number(value)),
            Piece::Value(Value::Bool(value), _) => out.push_str(if *value { "true" } else { "false" }),
            Piece::Value(Value::Null, _) => out.push_str("null"),
        }
    }
    out
}

fn push_string(out: &mut String, text: &str) {
    // Most texts need no escapes: they are copied once.
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}
