//! From bytes to a tree, within limits.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{
    Error as YamlError,
    budget::BudgetBreach,
    options::{DuplicateKeyPolicy, MergeKeyPolicy},
};

use super::Refusal;

/// Largest kubeconfig that is read. One context with a certificate takes about 6 KiB.
pub const MAX_DOCUMENT_BYTES: usize = 64 * 1024;

/// Deepest nesting of lists and mappings. Kubeconfigs have 4 levels, and 3 more in the extensions of minikube.
const MAX_DEPTH: usize = 16;

/// Most values in a document.
const MAX_NODES: usize = 10_000;

/// Field of refusals that are about the document as a whole.
pub(super) const DOCUMENT: &str = "kubeconfig";

/// A value of the document. Has no `Debug`: it holds secrets.
pub(super) enum Node {
    Null,
    Bool(bool),
    /// Of no use in a kubeconfig, so the number itself is not kept.
    Number,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Reads one YAML (or JSON) document without anchors, aliases, merge keys and duplicate keys.
pub(super) fn read(bytes: &[u8]) -> Result<Node, Refusal> {
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(refused(format!("is larger than {MAX_DOCUMENT_BYTES} bytes; keep one context in it")));
    }
    let text = str::from_utf8(bytes).map_err(|_| refused("is not UTF-8 text"))?;
    if text.contains('\0') {
        return Err(refused("contains NUL characters"));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 4 * MAX_NODES,
            max_nodes: MAX_NODES,
            max_depth: MAX_DEPTH,
            max_documents: 1,
            max_anchors: 0,
            max_aliases: 0,
            max_merge_keys: 0,
            max_inclusion_depth: 0,
            max_total_scalar_bytes: MAX_DOCUMENT_BYTES,
            max_total_comment_bytes: MAX_DOCUMENT_BYTES,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        // Snippets are parts of the document.
        with_snippet: false,
    };
    // Not the function for one document: that one overlooks what is broken, or over a limit, after the first.
    let mut documents: Vec<Node> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| refused(why(&error)))?;
    Ok(documents.pop().unwrap_or(Node::Null))
}

fn refused(why: impl Into<String>) -> Refusal {
    Refusal::new(DOCUMENT, why)
}

/// What is wrong, in words of our own: messages of the parser repeat the document.
fn why(error: &YamlError) -> String {
    let what = match error {
        YamlError::Budget { breach, .. } => match breach {
            BudgetBreach::Aliases { .. } | BudgetBreach::Anchors { .. } => {
                "anchors and aliases are not accepted"
            }
            BudgetBreach::Documents { .. } => "must be one document, not several",
            BudgetBreach::Depth { .. } => "is nested too deeply",
            BudgetBreach::MergeKeys { .. } => "merge keys are not accepted",
            _ => "has too many values",
        },
        YamlError::MultipleDocuments { .. } => "must be one document, not several",
        YamlError::DuplicateMappingKey { .. } => "has the same key twice in one mapping",
        YamlError::MergeKeyNotAllowed { .. } => "merge keys are not accepted",
        YamlError::UnknownAnchor { .. } => "anchors and aliases are not accepted",
        _ => "is not valid YAML",
    };
    match error.location() {
        Some(at) if at.line() > 0 => format!("{what} (line {}, column {})", at.line(), at.column()),
        _ => what.to_owned(),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Node, E> {
        Ok(Node::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut nodes = vec![];
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = vec![];
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}
