//! Which requests a rule is about.

use std::sync::Arc;

use super::{record::Record, request::Verb};

/// A test's own condition.
pub(super) type Predicate<T> = Arc<dyn Fn(&T) -> bool + Send + Sync>;

/// Which requests a rule is about. Everything that is not set matches anything.
#[derive(Clone, Default)]
pub struct Match {
    verbs: Vec<Verb>,
    writes: bool,
    group: Option<String>,
    resource: Option<String>,
    without: Vec<String>,
    namespace: Option<String>,
    name: Option<String>,
    path: Option<String>,
    field_manager: Option<String>,
    that: Vec<Predicate<Record>>,
    count: Count,
}

/// Which of the matching requests, counted from the moment the rule is added.
#[derive(Clone, Copy, Debug, Default)]
enum Count {
    #[default]
    Always,
    Nth(u64),
    From(u64),
    Times(u64),
}

impl Match {
    /// Every request.
    pub fn new() -> Self {
        Self::default()
    }

    /// This verb; called again, also that one.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Only requests that may change what the cluster stores; see [`super::Target::is_write`].
    #[must_use]
    pub fn writes(mut self) -> Self {
        self.writes = true;
        self
    }

    /// This API group; empty for the core group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// This resource, named as in RBAC: `pods`, `pods/status`, `pods/*`.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Not this resource, named as in RBAC; called again, nor that one.
    #[must_use]
    pub fn without(mut self, resource: impl Into<String>) -> Self {
        self.without.push(resource.into());
        self
    }

    /// This namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// This object. The name of a `create` is read from its body.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Exactly this path, for what is not a resource: `/readyz`, `/apis/apps/v1`.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// This field manager.
    #[must_use]
    pub fn field_manager(mut self, manager: impl Into<String>) -> Self {
        self.field_manager = Some(manager.into());
        self
    }

    /// Anything else.
    #[must_use]
    pub fn that(mut self, predicate: impl Fn(&Record) -> bool + Send + Sync + 'static) -> Self {
        self.that.push(Arc::new(predicate));
        self
    }

    /// Only the `n`th matching request, from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.count = Count::Nth(n);
        self
    }

    /// The `n`th matching request and all after it.
    #[must_use]
    pub fn from(mut self, n: u64) -> Self {
        self.count = Count::From(n);
        self
    }

    /// The first `n` matching requests.
    #[must_use]
    pub fn times(mut self, n: u64) -> Self {
        self.count = Count::Times(n);
        self
    }

    /// All matching requests, which is the default.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.count = Count::Always;
        self
    }

    pub(super) fn matches(&self, record: &Record) -> bool {
        let target = &record.target;
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == found)
        };
        (self.verbs.is_empty() || self.verbs.contains(&target.verb))
            && (!self.writes || target.is_write())
            && is(&self.group, Some(&target.group))
            && self.resource.as_deref().is_none_or(|resource| target.is_of(resource))
            && !self.without.iter().any(|resource| target.is_of(resource))
            && is(&self.namespace, target.namespace.as_deref())
            && is(&self.name, target.name.as_deref())
            && is(&self.path, Some(&target.path))
            && is(&self.field_manager, target.field_manager.as_deref())
            && self.that.iter().all(|predicate| predicate(record))
    }

    /// Whether the `seen`th match, from 1, is chosen.
    pub(super) fn chooses(&self, seen: u64) -> bool {
        match self.count {
            Count::Always => true,
            Count::Nth(n) => seen == n,
            Count::From(n) => seen >= n,
            Count::Times(n) => seen <= n,
        }
    }
}
