//! What a request asks for, read from its request line and content type alone.
//!
//! The rules are those of the apiserver's own `RequestInfo`, so that a recorded verb is the verb that RBAC would check;
//! the one addition is `apply`, which RBAC calls `patch`.

use std::fmt;

use hyper::{Method, Uri};
use percent_encoding::percent_decode_str;

/// Content type of a server-side apply.
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// What is done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object, or any path that is not a resource.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// `POST`.
    Create,
    /// `PUT`.
    Update,
    /// `PATCH` other than server-side apply.
    Patch,
    /// `PATCH` with the content type of server-side apply.
    Apply,
    /// `DELETE` of one object.
    Delete,
    /// `DELETE` of a collection.
    DeleteCollection,
}

impl Verb {
    /// The verb as RBAC rules and audit logs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether the verb only reads.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The resource, or the plain path, that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What is done.
    pub verb: Verb,
    /// The path as sent, without the query.
    pub path: String,
    /// API group; empty for the core group and for paths that are not resources.
    pub group: String,
    /// API version, empty for paths that are not resources.
    pub version: String,
    /// Plural resource name, empty for paths that are not resources.
    pub resource: String,
    /// Subresource such as `status`.
    pub subresource: Option<String>,
    /// Namespace of the object. A Namespace object itself has none.
    pub namespace: Option<String>,
    /// Name of the object: from the path, or from a field selector on `metadata.name`.
    pub name: Option<String>,
    /// `fieldManager` of the query.
    pub field_manager: Option<String>,
    /// Whether the request asks to store nothing.
    pub dry_run: bool,
}

impl Target {
    /// Reads a request line and its content type.
    pub fn parse(method: &Method, uri: &Uri, content_type: Option<&str>) -> Self {
        let query = Query::parse(uri.query().unwrap_or_default());
        let mut target = Self {
            verb: verb_of(method, content_type),
            path: uri.path().to_owned(),
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: None,
            namespace: None,
            name: None,
            field_manager: query.field_manager,
            dry_run: query.dry_run,
        };
        let segments: Vec<String> = uri
            .path()
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
            .collect();
        let rest = match segments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["api", version, _, ..] => {
                version.clone_into(&mut target.version);
                &segments[2..]
            }
            ["apis", group, version, _, ..] => {
                group.clone_into(&mut target.group);
                version.clone_into(&mut target.version);
                &segments[3..]
            }
            _ => return target,
        };
        target.read_resource(rest, query.watch, query.name);
        target
    }

    /// Whether the request is about a resource, not a plain path such as `/readyz` or discovery.
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// Whether `spec` names this resource, as RBAC spells it: `pods` is the resource itself, `pods/status` one
    /// subresource, `pods/*` the resource and all its subresources.
    pub fn is_of(&self, spec: &str) -> bool {
        match spec.split_once('/') {
            None => self.resource == spec && self.subresource.is_none(),
            Some((resource, "*")) => self.resource == resource,
            Some((resource, sub)) => self.resource == resource && self.subresource.as_deref() == Some(sub),
        }
    }

    /// Whether the request may change what the cluster stores.
    ///
    /// Not counted: reads, dry runs, and the review kinds of `authentication.k8s.io` and `authorization.k8s.io`,
    /// which are questions asked with `create`. A token request does count.
    pub fn is_write(&self) -> bool {
        let review = self.verb == Verb::Create
            && matches!(self.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
            && self.resource.ends_with("reviews");
        !self.verb.is_read() && !self.dry_run && !review
    }

    fn read_resource(&mut self, segments: &[String], watch: bool, selected: Option<String>) {
        let mut parts = segments;
        // The old form of a watch, /api/v1/watch/…, which the apiserver still serves.
        let watch_prefix = parts.len() > 1 && parts[0] == "watch";
        if watch_prefix {
            parts = &parts[1..];
        }
        if let [first, namespace, rest @ ..] = parts
            && first == "namespaces"
            && rest.first().is_some_and(|next| next != "status" && next != "finalize")
        {
            self.namespace = Some(namespace.clone());
            parts = rest;
        }
        self.resource = parts.first().cloned().unwrap_or_default();
        self.name = parts.get(1).cloned();
        self.subresource = parts.get(2).cloned();
        let one_object = self.name.is_some();
        if watch_prefix && self.verb == Verb::Get {
            self.verb = Verb::Watch;
        } else if !one_object {
            self.verb = match self.verb {
                Verb::Get if watch => Verb::Watch,
                Verb::Get => Verb::List,
                Verb::Delete => Verb::DeleteCollection,
                other => other,
            };
        }
        if self.verb.is_read() {
            self.name = self.name.take().or(selected);
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.verb)?;
        if !self.is_resource() {
            return f.write_str(&self.path);
        }
        f.write_str(&self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (Some(namespace), None) => write!(f, " {namespace}/"),
            (None, Some(name)) => write!(f, " {name}"),
            (None, None) => Ok(()),
        }
    }
}

fn verb_of(method: &Method, content_type: Option<&str>) -> Verb {
    match *method {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::DELETE => Verb::Delete,
        Method::PATCH if content_type.is_some_and(|kind| kind.starts_with(APPLY_PATCH)) => Verb::Apply,
        Method::PATCH => Verb::Patch,
        _ => Verb::Get,
    }
}

/// The parts of a query that say what is asked for.
#[derive(Default)]
struct Query {
    watch: bool,
    name: Option<String>,
    field_manager: Option<String>,
    dry_run: bool,
}

impl Query {
    fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match key.as_ref() {
                "watch" => parsed.watch = is_true(&value),
                "fieldSelector" => parsed.name = selected_name(&value),
                "fieldManager" if !value.is_empty() => parsed.field_manager = Some(value.into_owned()),
                "dryRun" => parsed.dry_run |= value == "All",
                _ => {}
            }
        }
        parsed
    }
}

/// The apiserver takes every value but these two as true, even an empty one.
fn is_true(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

fn selected_name(selector: &str) -> Option<String> {
    selector.split(',').find_map(|term| {
        let (field, value) = term.split_once('=')?;
        let value = value.strip_prefix('=').unwrap_or(value);
        (field == "metadata.name" && !value.is_empty()).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests;
