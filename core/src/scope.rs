//! What of the control plane an operator looks after: which controllers run, in which namespaces, of which instance.

use std::{collections::BTreeSet, fmt};

use kantor_api::labels::INSTANCE_ID;

use super::{
    hierarchy::Kind,
    lifecycle::{self, Profile},
};

/// A controller: it looks after the objects of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Controller(Kind);

/// Each controller's name, the life of its kind, and what it reads beside that and [`EVERYBODY`].
const CONTROLLERS: &[(&str, Kind, Option<&Profile>, &[Kind])] = &[
    ("organization", Kind::Organization, Some(&lifecycle::ORGANIZATION), &[]),
    ("data-plane", Kind::DataPlane, Some(&lifecycle::DATA_PLANE), &[]),
    ("environment", Kind::Environment, Some(&lifecycle::ENVIRONMENT), &[Kind::Project]),
    ("deployment-pipeline", Kind::DeploymentPipeline, Some(&lifecycle::DEPLOYMENT_PIPELINE), &[]),
    ("project", Kind::Project, Some(&lifecycle::PROJECT), &[Kind::Deployment]),
    ("component", Kind::Component, Some(&lifecycle::COMPONENT), &[]),
    ("deployment-track", Kind::DeploymentTrack, Some(&lifecycle::DEPLOYMENT_TRACK), &[]),
    ("deployable-artifact", Kind::DeployableArtifact, Some(&lifecycle::DEPLOYABLE_ARTIFACT), &[Kind::Build]),
    (
        "deployment",
        Kind::Deployment,
        Some(&lifecycle::DEPLOYMENT),
        &[Kind::DeployableArtifact, Kind::Build, Kind::ConfigurationGroup],
    ),
    (
        "endpoint",
        Kind::Endpoint,
        Some(&lifecycle::ENDPOINT),
        &[Kind::DeployableArtifact, Kind::HostnameClaim],
    ),
    ("hostname-claim", Kind::HostnameClaim, None, &[Kind::Endpoint]),
    ("release", Kind::Release, Some(&lifecycle::RELEASE), &[Kind::Project, Kind::Component]),
];

/// What leads to a data plane: all need it who write to one, or wait for those who do.
const EVERYBODY: &[Kind] =
    &[Kind::Organization, Kind::DataPlane, Kind::Environment, Kind::Secret, Kind::Namespace];

impl Controller {
    /// The controller of this name.
    pub fn named(name: &str) -> Option<Self> {
        CONTROLLERS.iter().find(|(known, ..)| *known == name).map(|(_, kind, ..)| Self(*kind))
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        CONTROLLERS.iter().map(|(_, kind, ..)| Self(*kind))
    }

    /// What it looks after.
    pub const fn kind(self) -> Kind {
        self.0
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.entry().map_or("", |(name, ..)| *name)
    }

    fn reads(self, kind: Kind) -> bool {
        let Some((_, own, profile, more)) = self.entry() else { return false };
        let in_profile = profile.is_some_and(|profile| {
            profile.needs.contains(&kind)
                || profile.on_delete.iter().any(|stage| stage.kinds().contains(&kind))
        });
        *own == kind || EVERYBODY.contains(&kind) || more.contains(&kind) || in_profile
    }

    fn entry(self) -> Option<&'static (&'static str, Kind, Option<&'static Profile>, &'static [Kind])> {
        CONTROLLERS.iter().find(|(_, kind, ..)| *kind == self.0)
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an operator looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The controllers that run.
    pub controllers: BTreeSet<Controller>,
    /// The namespaces that are looked after; none: all.
    pub namespaces: BTreeSet<String>,
    /// The instance whose objects are looked after; none: those of no instance.
    pub instance: Option<String>,
}

impl Default for Scope {
    fn default() -> Self {
        Self { controllers: Controller::all().collect(), namespaces: BTreeSet::new(), instance: None }
    }
}

impl Scope {
    /// The controller of a kind, if it runs.
    pub fn controller(&self, kind: Kind) -> Option<Controller> {
        self.controllers.get(&Controller(kind)).copied()
    }

    /// Whether any controller that runs reads a kind.
    pub fn follows(&self, kind: Kind) -> bool {
        self.controllers.iter().any(|controller| controller.reads(kind))
    }

    /// Whether objects in a namespace are looked after.
    pub fn covers(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    /// Where objects are listed: in all namespaces (none), or in each of these.
    pub fn places(&self) -> Vec<Option<&str>> {
        if self.namespaces.is_empty() {
            return vec![None];
        }
        self.namespaces.iter().map(|namespace| Some(namespace.as_str())).collect()
    }

    /// The labels of objects of a kind that are looked after. Host names are one room for all instances, and namespaces
    /// and Secrets are named by those who are looked after.
    pub fn selector(&self, kind: Kind) -> Option<String> {
        if matches!(kind, Kind::HostnameClaim | Kind::Namespace | Kind::Secret) {
            return None;
        }
        Some(match &self.instance {
            Some(instance) => format!("{INSTANCE_ID}={instance}"),
            None => format!("!{INSTANCE_ID}"),
        })
    }

    /// Whether a claim of a host name is looked after: its holder is in the namespace, and the label says whose it is.
    pub fn covers_claim(&self, holder_namespace: &str, instance: Option<&String>) -> bool {
        self.covers(holder_namespace) && self.instance.as_ref() == instance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(controllers: &[&str], namespaces: &[&str], instance: Option<&str>) -> Scope {
        Scope {
            controllers: controllers.iter().map(|name| Controller::named(name).unwrap()).collect(),
            namespaces: namespaces.iter().map(ToString::to_string).collect(),
            instance: instance.map(str::to_owned),
        }
    }

    #[test]
    fn each_controller_has_a_name_that_leads_back_to_it() {
        for controller in Controller::all() {
            assert_eq!(Controller::named(controller.name()), Some(controller));
            assert!(scope(&[controller.name()], &[], None).follows(controller.kind()), "{controller}");
        }
        assert_eq!(Controller::named("nonsense"), None);
    }

    #[test]
    fn parts_that_are_off_are_not_followed() {
        let releases = scope(&["release"], &[], None);
        for kind in [Kind::Release, Kind::Environment, Kind::DataPlane, Kind::Secret] {
            assert!(releases.follows(kind), "{kind}");
        }
        for kind in [Kind::Build, Kind::Endpoint, Kind::HostnameClaim, Kind::ConfigurationGroup] {
            assert!(!releases.follows(kind), "{kind}");
        }
        assert!(
            releases.controller(Kind::Release).is_some() && releases.controller(Kind::Deployment).is_none()
        );
    }

    #[test]
    fn everything_is_followed_where_nothing_is_off() {
        let all = Scope::default();
        for kind in
            [Kind::Build, Kind::ConfigurationGroup, Kind::HostnameClaim, Kind::Namespace, Kind::Secret]
        {
            assert!(all.follows(kind), "{kind}");
        }
    }

    #[test]
    fn namespaces_narrow_what_is_listed_and_whose_claims_are_looked_after() {
        let all = Scope::default();
        assert_eq!(all.places(), [None]);
        let some = scope(&["release"], &["acme", "globex"], None);
        assert_eq!(some.places(), [Some("acme"), Some("globex")]);
        assert!(!some.covers_claim("umbrella", None) && some.covers_claim("acme", None));
    }

    #[test]
    fn an_instance_has_its_own_objects_and_those_without_a_label_belong_to_the_one_without_a_name() {
        let blue = scope(&["release"], &[], Some("blue"));
        assert_eq!(blue.selector(Kind::Release).as_deref(), Some("openchoreo.dev/instance-id=blue"));
        assert_eq!(blue.selector(Kind::Secret), None);
        assert_eq!(blue.selector(Kind::HostnameClaim), None);
        assert!(blue.covers_claim("acme", Some(&"blue".to_owned())) && !blue.covers_claim("acme", None));
        assert_eq!(Scope::default().selector(Kind::Release).as_deref(), Some("!openchoreo.dev/instance-id"));
    }
}
