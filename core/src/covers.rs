//! Whether an object on a cluster already is what was asked for.
//!
//! An intent names fields; the object on the cluster has them and more: defaults, fields of other managers, and
//! values in the spelling of the API server. An object is left alone when its annotation
//! [`INTENT_HASH`](kantor_api::annotations::INTENT_HASH) is the hash of the intent, which tells that the intent was
//! applied, and when it still [covers] the intent, which tells that nobody changed it since.
//!
//! The comparison follows server-side apply: what an apply could not change is no difference, or it would be
//! applied over and over; what an apply would change back is one.

mod canonical;
mod lists;
mod place;
pub(crate) mod quantity;

use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    ops::ControlFlow,
};

use kube_core::DynamicObject;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use self::{
    lists::{Key, Rule},
    place::{Place, Subject},
};

/// How deep fields are compared one by one; what is deeper is compared as a whole. The stack is finite, and a
/// parser of JSON gives up long before.
const DEEPEST: usize = 256;

/// Fields of an object's metadata that only the API server sets.
const SERVER_SET: &[&str] =
    &["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

/// Fields of an object that are not compared: the status is not ours to set, and the API server never gives
/// `stringData` back; it stands in `data` as well.
const NOT_COMPARED: &[&str] = &["status", "stringData"];

/// Whether every field that `intent` sets has that value in `live`, as the API server keeps values.
pub fn covers(live: &Value, intent: &Value) -> bool {
    first_difference(live, intent).is_none()
}

/// The path of the first field of `intent` that is different in `live`, such as
/// `spec.template.spec.containers[name=app].image`.
///
/// It has names and merge keys, never other values: they may be secret.
pub fn first_difference(live: &Value, intent: &Value) -> Option<String> {
    let mut first = FirstDifference(None);
    compare(live, intent, &mut first);
    first.0
}

/// [`first_difference`] of two objects.
pub fn first_difference_of(live: &DynamicObject, intent: &DynamicObject) -> Option<String> {
    let mut first = FirstDifference(None);
    compare_objects(live, intent, &mut first);
    first.0
}

/// A number that stands for what `live` has at the fields that `intent` sets. For one intent it changes when one
/// of those fields changes, and only then; all objects that cover the intent have the same.
///
/// It is good within a process, not to be stored.
pub fn projection_digest(live: &Value, intent: &Value) -> u64 {
    let mut projection = Projection(DefaultHasher::new());
    compare(live, intent, &mut projection);
    projection.0.finish()
}

/// [`projection_digest`] of two objects.
pub fn projection_digest_of(live: &DynamicObject, intent: &DynamicObject) -> u64 {
    let mut projection = Projection(DefaultHasher::new());
    compare_objects(live, intent, &mut projection);
    projection.0.finish()
}

/// Hash of `intent` for its annotation: 16 hexadecimal digits of the SHA-256 of its canonical JSON.
///
/// It is stored on clusters: whatever changes it makes every object be applied once more. The annotation itself
/// does not count.
pub fn intent_hash(intent: &Value) -> String {
    hash_of(&canonical::intent(intent))
}

/// [`intent_hash`] of an object, whose JSON need not be made for it. Nothing if it has none.
pub fn object_hash(object: &DynamicObject) -> Option<String> {
    canonical::object(object).map(|text| hash_of(&text))
}

fn hash_of(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let first = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{first:016x}")
}

/// What is at a place of the intent.
enum Found<'a> {
    /// Nothing, where something is wanted.
    Nothing,
    /// This; the wanted value itself if they are as good as equal.
    Value(&'a Value),
    /// So many items.
    Count(usize),
}

/// Is told what is found, place by place, in an order that depends on the intent alone.
trait Visitor {
    fn visit(&mut self, at: &Place<'_>, same: bool, found: Found<'_>) -> ControlFlow<()>;
}

struct FirstDifference(Option<String>);

impl Visitor for FirstDifference {
    fn visit(&mut self, at: &Place<'_>, same: bool, _: Found<'_>) -> ControlFlow<()> {
        if same {
            return ControlFlow::Continue(());
        }
        self.0 = Some(at.to_string());
        ControlFlow::Break(())
    }
}

struct Projection(DefaultHasher);

impl Visitor for Projection {
    fn visit(&mut self, at: &Place<'_>, _: bool, found: Found<'_>) -> ControlFlow<()> {
        // The depth tells a value in the place of a map from the same value inside of it.
        at.depth().hash(&mut self.0);
        match found {
            Found::Nothing => 0_u8.hash(&mut self.0),
            Found::Count(count) => (1_u8, count).hash(&mut self.0),
            Found::Value(value) => match quantity_at(at, value) {
                Some(nanos) => (2_u8, nanos).hash(&mut self.0),
                None => (3_u8, canonical::text(value)).hash(&mut self.0),
            },
        }
        ControlFlow::Continue(())
    }
}

/// An object's JSON, of which only what is not JSON already is made: there may be thousands, and most are as they shall be.
struct Whole<'a> {
    head: Map<String, Value>,
    data: &'a Map<String, Value>,
}

impl<'a> Whole<'a> {
    fn of(object: &'a DynamicObject) -> Option<Self> {
        let data = object.data.as_object()?;
        let mut head = Map::new();
        if let Some(types) = &object.types {
            head.insert("apiVersion".to_owned(), types.api_version.as_str().into());
            head.insert("kind".to_owned(), types.kind.as_str().into());
        }
        head.insert("metadata".to_owned(), serde_json::to_value(&object.metadata).ok()?);
        head.retain(|name, _| !data.contains_key(name));
        Some(Self { head, data })
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.data.get(name).or_else(|| self.head.get(name))
    }

    /// In the order of their names.
    fn fields(&self) -> Vec<(&str, &Value)> {
        let mut fields: Vec<_> =
            self.head.iter().chain(self.data).map(|(name, value)| (name.as_str(), value)).collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        fields
    }
}

fn compare_objects(live: &DynamicObject, intent: &DynamicObject, visitor: &mut dyn Visitor) {
    let (Some(live), Some(intent)) = (Whole::of(live), Whole::of(intent)) else {
        let json = |object| serde_json::to_value(object).unwrap_or_default();
        return compare(&json(live), &json(intent), visitor);
    };
    let subject = Subject::new(|name| intent.get(name).or_else(|| live.get(name)));
    let root = Place::root(&subject);
    for (name, wanted) in intent.fields() {
        if !wanted.is_null()
            && !NOT_COMPARED.contains(&name)
            && walk(live.get(name), wanted, &root.field(name), visitor).is_break()
        {
            break;
        }
    }
}

fn compare(live: &Value, intent: &Value, visitor: &mut dyn Visitor) {
    if !intent.is_null() {
        let subject = Subject::new(|name| intent.get(name).or_else(|| live.get(name)));
        // Whether it was stopped is known to the visitor.
        let _ = walk(Some(live), intent, &Place::root(&subject), visitor);
    }
}

fn walk(live: Option<&Value>, intent: &Value, at: &Place<'_>, visitor: &mut dyn Visitor) -> ControlFlow<()> {
    let live = live.filter(|live| !live.is_null());
    let same = match (live, intent) {
        _ if at.depth() >= DEEPEST => {
            live.map_or_else(|| is_empty(intent), |live| canonical::text(live) == canonical::text(intent))
        }
        (None, Value::Object(wanted)) => return walk_map(None, wanted, at, visitor),
        (Some(Value::Object(live)), Value::Object(wanted)) => {
            return walk_map(Some(live), wanted, at, visitor);
        }
        (None, Value::Array(wanted)) => return walk_list(&[], wanted, at, visitor),
        (Some(Value::Array(live)), Value::Array(wanted)) => return walk_list(live, wanted, at, visitor),
        (None, _) => is_empty(intent),
        (Some(live), _) => same_scalar(live, intent, at),
    };
    let found = if same { Some(intent) } else { live };
    visitor.visit(at, same, found.map_or(Found::Nothing, Found::Value))
}

fn walk_map(
    live: Option<&Map<String, Value>>,
    intent: &Map<String, Value>,
    at: &Place<'_>,
    visitor: &mut dyn Visitor,
) -> ControlFlow<()> {
    for (name, wanted) in intent.iter().filter(|(_, wanted)| !wanted.is_null()) {
        let not_compared = (at.is_root() && NOT_COMPARED.contains(&name.as_str()))
            || (at.is_object_meta() && SERVER_SET.contains(&name.as_str()))
            // By these the item was found.
            || at.is_merge_key(name);
        if !not_compared {
            walk(live.and_then(|live| live.get(name)), wanted, &at.field(name), visitor)?;
        }
    }
    if at.is_selector() {
        // What selects is one value: a key that nobody asked for selects something else.
        let wanted = |name: &String| intent.get(name).is_some_and(|wanted| !wanted.is_null());
        let others = live.into_iter().flatten().filter(|(name, value)| !is_empty(value) && !wanted(name));
        for (name, value) in others {
            visitor.visit(&at.field(name), false, Found::Value(value))?;
        }
    }
    ControlFlow::Continue(())
}

fn walk_list(live: &[Value], intent: &[Value], at: &Place<'_>, visitor: &mut dyn Visitor) -> ControlFlow<()> {
    match lists::rule(at, live, intent) {
        Rule::Atomic => walk_positions(live, intent, at, visitor),
        Rule::Set => walk_set(live, intent, at, visitor),
        Rule::Keyed { keys, identities } => {
            let wanted = identities.iter().map(String::as_str).zip(intent);
            walk_keyed(live, wanted, keys, at, visitor)
        }
    }
}

fn walk_positions(
    live: &[Value],
    intent: &[Value],
    at: &Place<'_>,
    visitor: &mut dyn Visitor,
) -> ControlFlow<()> {
    visitor.visit(at, live.len() == intent.len(), Found::Count(live.len()))?;
    for (index, item) in live.iter().enumerate() {
        match intent.get(index) {
            Some(wanted) => walk(Some(item), wanted, &at.position(index), visitor)?,
            // The list is one value: items that nobody asked for are a part of it.
            None => visitor.visit(&at.position(index), false, Found::Value(item))?,
        }
    }
    ControlFlow::Continue(())
}

fn walk_set(live: &[Value], intent: &[Value], at: &Place<'_>, visitor: &mut dyn Visitor) -> ControlFlow<()> {
    let there: BTreeSet<&str> = live.iter().filter_map(Value::as_str).collect();
    intent.iter().enumerate().try_for_each(|(index, wanted)| {
        let found = wanted.as_str().is_some_and(|wanted| there.contains(wanted));
        visitor.visit(&at.position(index), found, Found::Count(usize::from(found)))
    })
}

fn walk_keyed<'a>(
    live: &[Value],
    wanted: impl Iterator<Item = (&'a str, &'a Value)>,
    keys: &'static [Key],
    at: &Place<'_>,
    visitor: &mut dyn Visitor,
) -> ControlFlow<()> {
    let mut there: HashMap<String, Vec<&Value>> = HashMap::with_capacity(live.len());
    for item in live {
        if let Some(identity) = lists::identity(keys, item) {
            there.entry(identity).or_default().push(item);
        }
    }
    for (index, (identity, wanted)) in wanted.enumerate() {
        let found = there.get(identity).map_or(&[][..], Vec::as_slice);
        let at = at.item(index, keys, wanted);
        // Items of the same key, which an update can leave, are made one by an apply.
        visitor.visit(&at, found.len() == 1, Found::Count(found.len()))?;
        found.iter().try_for_each(|item| walk(Some(item), wanted, &at, visitor))?;
    }
    ControlFlow::Continue(())
}

/// Whether the API server may leave a field of this value out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn same_scalar(live: &Value, intent: &Value, at: &Place<'_>) -> bool {
    match (live, intent) {
        (Value::String(live), Value::String(intent)) if live == intent => true,
        (Value::Bool(live), Value::Bool(intent)) => live == intent,
        (Value::Number(live), Value::Number(intent))
            if live == intent || canonical::number(live) == canonical::number(intent) =>
        {
            true
        }
        _ => quantity_at(at, intent).is_some_and(|wanted| quantity_at(at, live) == Some(wanted)),
    }
}

/// The quantity that `value` is, if there is a quantity at this place.
fn quantity_at(at: &Place<'_>, value: &Value) -> Option<i128> {
    match value {
        Value::String(text) if at.is_quantity() => quantity::nanos(text),
        Value::Number(number) if at.is_quantity() => quantity::nanos(&canonical::number(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
