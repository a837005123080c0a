//! One spelling for each JSON value.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kantor_api::annotations;
use kube_core::DynamicObject;
use serde_json::{Map, Number, Value, map::Iter as MapIter};

/// Canonical JSON of `value`: keys sorted, fields of maps that are null left out, numbers in one spelling.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    push(&mut out, value, Part::Inner);
    out
}

/// Canonical JSON of an intent without the annotation that has its hash. An intent is the same before and after
/// it got its annotation: annotations and metadata that are empty without it are left out as well.
pub fn intent(value: &Value) -> String {
    let mut out = String::new();
    push(&mut out, value, Part::Object);
    out
}

/// [`intent`] of an object's JSON, which need not be made for it.
pub fn object(object: &DynamicObject) -> Option<String> {
    let data = object.data.as_object()?;
    let types = object.types.iter().flat_map(|types| {
        [("apiVersion", Field::Text(&types.api_version)), ("kind", Field::Text(&types.kind))]
    });
    let own = types.chain([("metadata", Field::Metadata(&object.metadata))]);
    let mut fields: Vec<(&str, Field<'_>)> = own.filter(|(name, _)| !data.contains_key(*name)).collect();
    fields.extend(data.iter().map(|(name, value)| (name.as_str(), Field::Value(value))));
    fields.sort_unstable_by_key(|(name, _)| *name);
    // Most objects have no more.
    let mut out = String::with_capacity(1024);
    out.push('{');
    for (name, field) in fields {
        let before = out.len();
        push_name(&mut out, name);
        let is_kept = match field {
            Field::Value(value) if Part::Object.keeps(name, value) => {
                push(&mut out, value, Part::Object.of_field(name));
                true
            }
            Field::Value(_) => false,
            Field::Text(text) => {
                push_string(&mut out, text);
                true
            }
            Field::Metadata(metadata) => push_metadata(&mut out, metadata)?,
        };
        if !is_kept {
            out.truncate(before);
        }
    }
    out.push('}');
    Some(out)
}

/// A field of an object.
enum Field<'a> {
    Value(&'a Value),
    Text(&'a str),
    Metadata(&'a ObjectMeta),
}

/// Writes metadata; whether there was anything to write. Nothing if it cannot be written.
fn push_metadata(out: &mut String, metadata: &ObjectMeta) -> Option<bool> {
    // All fields are named, so that none is forgotten.
    let ObjectMeta {
        annotations: notes,
        creation_timestamp,
        deletion_grace_period_seconds,
        deletion_timestamp,
        finalizers,
        generate_name,
        generation,
        labels,
        managed_fields,
        name,
        namespace,
        owner_references,
        resource_version,
        self_link,
        uid,
    } = metadata;
    let is_usual = [creation_timestamp, deletion_timestamp].iter().all(|time| time.is_none())
        && [generate_name, resource_version, self_link, uid].iter().all(|text| text.is_none())
        && [deletion_grace_period_seconds, generation].iter().all(|number| number.is_none())
        && (finalizers.is_none() && managed_fields.is_none() && owner_references.is_none());
    if !is_usual {
        let value = serde_json::to_value(metadata).ok()?;
        let is_kept = Part::Object.keeps("metadata", &value);
        if is_kept {
            push(out, &value, Part::Metadata);
        }
        return Some(is_kept);
    }
    let before = out.len();
    out.push('{');
    for (key, texts) in [("annotations", notes), ("labels", labels)] {
        let own = |(name, _): &(&String, &String)| key == "labels" || *name != annotations::INTENT_HASH;
        let Some(texts) =
            texts.as_ref().filter(|texts| key == "labels" || texts.iter().any(|text| own(&text)))
        else {
            continue;
        };
        push_name(out, key);
        out.push('{');
        for (name, text) in texts.iter().filter(own) {
            push_name(out, name);
            push_string(out, text);
        }
        out.push('}');
    }
    for (key, text) in [("name", name), ("namespace", namespace)] {
        if let Some(text) = text {
            push_name(out, key);
            push_string(out, text);
        }
    }
    out.push('}');
    Some(out.len() > before + 2)
}

/// Writes the name of a field, after what stands before it.
fn push_name(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    push_string(out, name);
    out.push(':');
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

/// A map or a list that is being written.
enum Open<'a> {
    Map(MapIter<'a>, Part),
    List(std::slice::Iter<'a, Value>),
}

/// Writes with a stack of its own, because there is no limit to how deep a value is.
fn push(out: &mut String, value: &Value, part: Part) {
    let mut open: Vec<Open<'_>> = vec![];
    push_start(out, value, part, &mut open);
    while let Some(innermost) = open.last_mut() {
        let next = match innermost {
            Open::Map(fields, part) => {
                let part = *part;
                let next = fields.find(|(name, value)| part.keeps(name, value));
                next.map(|(name, value)| (Some(name), value, part.of_field(name)))
            }
            Open::List(items) => items.next().map(|item| (None, item, Part::Inner)),
        };
        let Some((name, value, part)) = next else {
            out.push(if matches!(innermost, Open::Map(..)) { '}' } else { ']' });
            open.pop();
            continue;
        };
        match name {
            Some(name) => push_name(out, name),
            None if !out.ends_with('[') => out.push(','),
            None => {}
        }
        push_start(out, value, part, &mut open);
    }
}

/// Writes a value, or the beginning of one that has others in it, which is put onto the stack.
fn push_start<'a>(out: &mut String, value: &'a Value, part: Part, open: &mut Vec<Open<'a>>) {
    match value {
        Value::Object(fields) => {
            // Maps of serde_json are in the order of their keys.
            debug_assert!(fields.keys().is_sorted(), "keys are sorted");
            out.push('{');
            open.push(Open::Map(fields.iter(), part));
        }
        Value::Array(items) => {
            out.push('[');
            open.push(Open::List(items.iter()));
        }
        Value::String(text) => push_string(out, text),
        Value::Number(value) => out.push_str(&number(value)),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Null => out.push_str("null"),
    }
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
