//! Where in an object a value is: to name the place, and to know what kind of value is there.

use std::{fmt, iter};

use serde_json::Value;

use super::lists::Key;

/// How much of a name is shown: more than Kubernetes accepts.
const SHOWN: usize = 253;

/// Fields whose values are free text, whatever their names say.
const TEXTS: &[&str] =
    &["annotations", "labels", "matchLabels", "nodeSelector", "selector", "volumeAttributes"];

/// Fields of the same kind at the top of an object: of a ConfigMap, a Secret, a StorageClass.
const TOP_TEXTS: &[&str] = &["binaryData", "data", "parameters"];

/// What kind of object it is.
#[derive(Debug)]
pub struct Subject<'a> {
    api_version: &'a str,
    kind: &'a str,
}

impl<'a> Subject<'a> {
    /// Of the intent; of the live object where the intent does not say.
    pub fn new(field: impl Fn(&'static str) -> Option<&'a Value>) -> Self {
        let say = |name| field(name).and_then(Value::as_str).unwrap_or_default();
        Self { api_version: say("apiVersion"), kind: say("kind") }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Position(usize),
    Item { index: usize, keys: &'static [Key], item: &'a Value },
}

/// A place in an object.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    subject: &'a Subject<'a>,
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
    depth: usize,
    atomic: bool,
    text: bool,
}

impl<'a> Place<'a> {
    /// The object itself.
    pub fn root(subject: &'a Subject<'a>) -> Self {
        Self { subject, parent: None, step: Step::Root, depth: 0, atomic: false, text: false }
    }

    fn below(&'a self, step: Step<'a>) -> Self {
        Self { parent: Some(self), step, depth: self.depth + 1, ..*self }
    }

    /// The field of this name.
    pub fn field(&'a self, name: &'a str) -> Self {
        let text = self.text || TEXTS.contains(&name) || (self.is_root() && TOP_TEXTS.contains(&name));
        Self { text, ..self.below(Step::Field(name)) }
    }

    /// The item at this position of a list that is one value. So is everything in it.
    pub fn position(&'a self, index: usize) -> Self {
        Self { atomic: true, ..self.below(Step::Position(index)) }
    }

    /// The item of a list that has the same keys as `item`.
    pub fn item(&'a self, index: usize, keys: &'static [Key], item: &'a Value) -> Self {
        self.below(Step::Item { index, keys, item })
    }

    /// How many steps it is from the object.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether it is the object itself.
    pub fn is_root(&self) -> bool {
        self.depth == 0
    }

    /// Whether it is the metadata of the object, not of something in it.
    pub fn is_object_meta(&self) -> bool {
        self.depth == 1 && matches!(self.step, Step::Field("metadata"))
    }

    /// Whether it is an item that was found by its field of this name.
    pub fn is_merge_key(&self, name: &str) -> bool {
        matches!(self.step, Step::Item { keys, .. } if keys.iter().any(|key| key.name == name))
    }

    /// Whether it is a selector of labels, which others add nothing to.
    pub fn is_selector(&self) -> bool {
        matches!(self.step, Step::Field(_))
            && matches!(
                self.innermost(),
                ["selector", "spec", ""]
                    | [
                        "labelSelector"
                            | "matchLabels"
                            | "namespaceSelector"
                            | "nodeSelector"
                            | "podSelector",
                        ..
                    ]
            )
    }

    /// Whether it is in a list that is one value.
    pub fn is_in_atomic(&self) -> bool {
        self.atomic
    }

    /// Whether the object is of this kind of this API version.
    pub fn is_of(&self, api_version: &str, kind: &str) -> bool {
        self.subject.api_version == api_version && self.is_of_kind(kind)
    }

    /// Whether the object is of a kind of this name, of any API.
    pub fn is_of_kind(&self, kind: &str) -> bool {
        self.subject.kind == kind
    }

    /// Names of the fields on the way up, without the items of lists between them; the innermost first.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        iter::successors(Some(self), |place| place.parent).filter_map(|place| match place.step {
            Step::Field(name) => Some(name),
            _ => None,
        })
    }

    /// Names of the innermost three fields, the innermost first; empty where there are none.
    pub fn innermost(&self) -> [&str; 3] {
        let mut fields = self.fields();
        std::array::from_fn(|_| fields.next().unwrap_or_default())
    }

    /// Whether a value here is a Kubernetes quantity.
    pub fn is_quantity(&self) -> bool {
        if self.text {
            return false;
        }
        match self.innermost() {
            [_, "limits" | "requests", "resources"]
            | [_, "capacity" | "hard" | "overhead", _]
            | [_, "podFixed", "overhead"]
            | ["sizeLimit", "emptyDir", _]
            | ["divisor", "resourceFieldRef", _]
            | ["storage", ..] => true,
            [_, "max" | "min" | "default" | "defaultRequest" | "maxLimitRequestRatio", "limits"] => {
                self.is_of_kind("LimitRange")
            }
            ["averageValue" | "value", "target", _] => self.is_of_kind("HorizontalPodAutoscaler"),
            _ => false,
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        let mut way: Vec<&Place<'_>> = iter::successors(Some(self), |place| place.parent).collect();
        way.reverse();
        for place in way {
            match place.step {
                Step::Root => {}
                Step::Field(name) if is_word(name) => {
                    f.write_str(if place.depth == 1 { "" } else { "." })?;
                    f.write_str(name)?;
                }
                Step::Field(name) => {
                    let shown: String = name.chars().take(SHOWN).collect();
                    write!(f, "[{shown:?}]")?;
                }
                Step::Position(index) => write!(f, "[{index}]")?,
                Step::Item { index, keys, item } => match shown_keys(keys, item) {
                    Some(keys) => write!(f, "[{keys}]")?,
                    None => write!(f, "[{index}]")?,
                },
            }
        }
        Ok(())
    }
}

fn is_word(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= SHOWN
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

/// The keys of an item, unless they would make the path hard to read.
fn shown_keys(keys: &[Key], item: &Value) -> Option<String> {
    let plain = |text: &str| {
        text.len() <= SHOWN && text.bytes().all(|b| b.is_ascii_graphic() && !b"[],=\"".contains(&b))
    };
    let mut shown = Vec::new();
    for key in keys {
        let value = match key.of(item)? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        shown.push(plain(&value).then(|| format!("{}={value}", key.name))?);
    }
    Some(shown.join(","))
}
