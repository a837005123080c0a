//! How objects of the control plane refer to each other: by labels, which carry logical names.
//!
//! ```text
//! Organization ← DataPlane ← Environment ← Deployment, Endpoint, Release
//!              ← DeploymentPipeline ← Project ← Component ← DeploymentTrack ← Build, DeployableArtifact, Deployment
//!              ← ConfigurationGroup, Build ← DeployableArtifact ← Deployment ← Endpoint
//! ```
//!
//! The logical name of an object is its label `openchoreo.dev/name`; where no object has it, `metadata.name` does.

mod facts;
mod resolve;

use std::fmt;

pub use facts::{Described, FALLBACK_NAMESPACE, logical_name, organization_of};
use kube_core::ApiResource;
pub use resolve::{
    Catalog, ResolveError, beside, children, find, resolve, taken_along, twins, unresolved, users,
};

/// Kinds that refer or are referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the kinds of the API, by their names")]
pub enum Kind {
    Organization,
    DataPlane,
    Environment,
    DeploymentPipeline,
    Project,
    Component,
    DeploymentTrack,
    Build,
    ConfigurationGroup,
    DeployableArtifact,
    Deployment,
    Endpoint,
    HostnameClaim,
    Release,
    Namespace,
    Secret,
}

impl Kind {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Organization,
        Self::DataPlane,
        Self::Environment,
        Self::DeploymentPipeline,
        Self::Project,
        Self::Component,
        Self::DeploymentTrack,
        Self::Build,
        Self::ConfigurationGroup,
        Self::DeployableArtifact,
        Self::Deployment,
        Self::Endpoint,
        Self::HostnameClaim,
        Self::Release,
        Self::Namespace,
        Self::Secret,
    ];

    /// Whether an object of this kind looks at those of `other` that refer to it while it is not being deleted, when all do.
    pub fn minds(self, other: Self) -> bool {
        matches!(
            (self, other),
            // The namespaces that they use.
            (Self::Environment, Self::Deployment)
            // What is told of each.
            | (Self::Deployment | Self::HostnameClaim, Self::Endpoint)
        )
    }

    /// How the API server knows the kind.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::Organization => ApiResource::erase::<kantor_api::Organization>(&()),
            Self::DataPlane => ApiResource::erase::<kantor_api::DataPlane>(&()),
            Self::Environment => ApiResource::erase::<kantor_api::Environment>(&()),
            Self::DeploymentPipeline => ApiResource::erase::<kantor_api::DeploymentPipeline>(&()),
            Self::Project => ApiResource::erase::<kantor_api::Project>(&()),
            Self::Component => ApiResource::erase::<kantor_api::Component>(&()),
            Self::DeploymentTrack => ApiResource::erase::<kantor_api::DeploymentTrack>(&()),
            Self::Build => ApiResource::erase::<kantor_api::Build>(&()),
            Self::ConfigurationGroup => ApiResource::erase::<kantor_api::ConfigurationGroup>(&()),
            Self::DeployableArtifact => ApiResource::erase::<kantor_api::DeployableArtifact>(&()),
            Self::Deployment => ApiResource::erase::<kantor_api::Deployment>(&()),
            Self::Endpoint => ApiResource::erase::<kantor_api::Endpoint>(&()),
            Self::HostnameClaim => ApiResource::erase::<kantor_api::HostnameClaim>(&()),
            Self::Release => ApiResource::erase::<kantor_api::Release>(&()),
            Self::Namespace => ApiResource::erase::<k8s_openapi::api::core::v1::Namespace>(&()),
            Self::Secret => ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An object, by what tells it apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for kinds without one.
    pub namespace: String,
    /// Its `metadata.name`.
    pub name: String,
}

impl Id {
    /// The object of that kind and name.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Under what an object can be found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// Its logical name among the children of the same parents.
    Labelled {
        /// Its kind.
        kind: Kind,
        /// Its namespace.
        namespace: String,
        /// Logical names of its parents, from the organization down.
        scope: Vec<String>,
        /// Its logical name.
        name: String,
    },
    /// Its `metadata.name`.
    Named(Id),
}

/// A key that is looked up and not kept: an object may have thousands of references, each with two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyRef<'a> {
    /// As [`Key::Labelled`].
    Labelled {
        /// Its kind.
        kind: Kind,
        /// Its namespace.
        namespace: &'a str,
        /// Logical names of its parents, from the organization down.
        scope: &'a [String],
        /// Its logical name.
        name: &'a str,
    },
    /// As [`Key::Named`].
    Named {
        /// Its kind.
        kind: Kind,
        /// Its namespace.
        namespace: &'a str,
        /// Its `metadata.name`.
        name: &'a str,
    },
}

impl Key {
    /// The key without a copy.
    pub fn borrowed(&self) -> KeyRef<'_> {
        match self {
            Self::Labelled { kind, namespace, scope, name } => {
                KeyRef::Labelled { kind: *kind, namespace, scope, name }
            }
            Self::Named(Id { kind, namespace, name }) => KeyRef::Named { kind: *kind, namespace, name },
        }
    }
}

/// What an object refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Need {
    /// Kind of the other object.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Logical names of its parents, from the organization down.
    pub scope: Vec<String>,
    /// Its logical name.
    pub name: String,
    /// Kinds among those who need the referring object that are concerned by changes of the other one as well.
    pub passes_on: &'static [Kind],
}

impl Need {
    /// The keys under which the other object may be found, in the order in which they are tried.
    pub fn keys(&self) -> [KeyRef<'_>; 2] {
        let Self { kind, namespace, scope, name, .. } = self;
        [
            KeyRef::Labelled { kind: *kind, namespace, scope, name },
            KeyRef::Named { kind: *kind, namespace, name },
        ]
    }

    /// Whether the same object is looked for in `other`, if only elsewhere: the first that leads somewhere counts.
    pub fn is_alternative(&self, other: &Self) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }
}

/// A namespace of a data plane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Namespace and name of the data plane.
    pub plane: (String, String),
    /// The namespace there.
    pub namespace: String,
}

/// What has to be known of an object to find it, to find what it needs, and to wake who needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The object.
    pub id: Id,
    /// Its UID.
    pub uid: Option<String>,
    /// UIDs of the objects that own it.
    pub owners: Vec<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Logical names of its parents as far as it names them, from the organization down.
    pub scope: Vec<Option<String>>,
    /// Its logical name, if it carries one.
    pub logical_name: Option<String>,
    /// What it refers to.
    pub needs: Vec<Need>,
    /// Where it says that it is, on data planes.
    pub places: Vec<Place>,
    /// Labels that it should carry and does not.
    pub missing_labels: Vec<&'static str>,
    /// Changes when those who need the object are concerned.
    pub essence: u64,
    /// What those whom the object needs are concerned by. The same report of several objects is news once.
    pub report: u64,
}

impl Facts {
    /// The keys under which the object is found.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys = vec![Key::Named(self.id.clone())];
        if let (Some(name), Some(scope)) =
            (&self.logical_name, self.scope.iter().cloned().collect::<Option<Vec<_>>>())
        {
            let (kind, namespace) = (self.id.kind, self.id.namespace.clone());
            keys.push(Key::Labelled { kind, namespace, scope, name: name.clone() });
        }
        keys
    }

    /// Its logical name: that which it carries, or else its `metadata.name`.
    pub fn name(&self) -> &str {
        self.logical_name.as_ref().unwrap_or(&self.id.name)
    }

    /// Whether the object may be a child of `scope`: it says nothing else, or nothing is asked of it.
    pub fn fits(&self, scope: &[String]) -> bool {
        scope.is_empty()
            || (self.scope.len() == scope.len()
                && self
                    .scope
                    .iter()
                    .zip(scope)
                    .all(|(own, asked)| own.as_ref().is_none_or(|own| own == asked)))
    }
}

#[cfg(any(test, feature = "test-support"))]
#[allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::return_self_not_must_use,
    reason = "helpers of tests fail the test"
)]
pub mod sample;
#[cfg(test)]
mod tests;
