//! Where the values of a workload come from, and the objects that carry them to the data plane.

mod objects;
mod vault;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use kantor_api::{
    ConfigurationGroup,
    application::{Application, KeySource},
    common::KeyRef,
    conditions::reasons,
    labels,
    names::{self, NameKind},
};
use kube_core::{DynamicObject, ResourceExt};
use sha2::{Digest as _, Sha256};

use super::{
    Inputs, Problem,
    place::Place,
    values::{Held, held, sets_of},
};
use crate::hierarchy::logical_name;

/// Key of the ConfigMap of a file that is written inline.
const CONTENT: &str = "content";

/// Names of what values come from.
#[derive(Default)]
pub(super) struct Used {
    pub groups: BTreeSet<String>,
    pub secrets: BTreeSet<String>,
}

/// What the values of `application` come from.
pub(super) fn used(application: &Application) -> Used {
    let mut used = Used::default();
    let env = application.env.iter().filter_map(|env| env.value_from.as_ref());
    let files = application.file_mounts.iter().filter_map(|file| file.value_from.as_ref());
    for from in env.chain(files) {
        used.groups.extend(from.configuration_group_ref.as_ref().map(|group| group.name.clone()));
        used.secrets.extend(from.secret_ref.as_ref().map(|secret| secret.name.clone()));
    }
    for from in &application.env_from {
        used.groups.extend(from.configuration_group_ref.as_ref().map(|group| group.name.clone()));
        used.secrets.extend(from.secret_ref.as_ref().map(|secret| secret.name.clone()));
    }
    for from in &application.file_mounts_from {
        used.groups.extend(from.configuration_group_ref.as_ref().map(|group| group.name.clone()));
        used.secrets.extend(from.secret_ref.as_ref().map(|secret| secret.name.clone()));
    }
    used
}

/// In what a value is on the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Carrier {
    /// A ConfigMap.
    ConfigMap,
    /// A SecretProviderClass, and the Secret of the same name that the driver makes of it.
    Vault,
    /// A Secret.
    Secret,
}

/// Where a value is on the data plane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub carrier: Carrier,
    /// Name of the object.
    pub object: String,
    pub key: String,
    /// Volume through which the value becomes a file.
    pub volume: String,
    /// Name of the source, as pods and people know it.
    pub source: String,
}

/// A configuration group as the environment sees it.
struct Group<'a> {
    /// Name of its objects on the data plane.
    object: String,
    logical_name: String,
    /// Names of the volumes with its plain values and with those in the vault.
    volumes: [String; 2],
    /// All keys; those without a value for the environment hold nothing.
    keys: BTreeMap<&'a str, Option<Held<'a>>>,
}

impl Group<'_> {
    fn volume(&self, held: Held<'_>) -> String {
        let [plain, vaulted] = &self.volumes;
        if matches!(held, Held::Plain(_)) { plain.clone() } else { vaulted.clone() }
    }
}

/// Finds values, and notes what is used.
pub(super) struct Sources<'a> {
    inputs: &'a Inputs<'a>,
    place: &'a Place,
    /// Groups that are used, by the names of their objects.
    groups: BTreeMap<String, Group<'a>>,
    /// Those whose secret values are used.
    vaulted: BTreeSet<String>,
    /// Keys that are used, by the names of Secrets of the control plane.
    secrets: BTreeMap<String, BTreeSet<String>>,
    /// Contents of files that are written inline, by the names of their ConfigMaps.
    inline: BTreeMap<String, &'a str>,
    /// Everything that the pod sees, in what it is and by key.
    seen: BTreeMap<(Carrier, String, String), Cow<'a, [u8]>>,
    problems: Vec<Problem>,
}

/// What follows from the values that are used.
pub(super) struct Configured {
    pub objects: Vec<DynamicObject>,
    /// Changes when a value that the pod sees does. None if it sees none.
    pub checksum: Option<String>,
}

impl<'a> Sources<'a> {
    pub fn new(inputs: &'a Inputs<'a>, place: &'a Place) -> Self {
        Self {
            inputs,
            place,
            groups: BTreeMap::new(),
            vaulted: BTreeSet::new(),
            secrets: BTreeMap::new(),
            inline: BTreeMap::new(),
            seen: BTreeMap::new(),
            problems: vec![],
        }
    }

    fn problem(&mut self, reason: &'static str, message: String) {
        self.problems.push(Problem::artifact(reason, message));
    }

    /// The content of the file at `path`, written inline.
    pub fn inline(&mut self, path: &str, content: &'a str) -> Spot {
        let volume = format!("filemount-{}", names::short_hash(path));
        let object = self.place.name_of(&volume);
        self.inline.insert(object.clone(), content);
        let key = (Carrier::ConfigMap, object.clone(), CONTENT.to_owned());
        self.seen.insert(key, content.as_bytes().into());
        let source = path.to_owned();
        Spot { carrier: Carrier::ConfigMap, object, key: CONTENT.to_owned(), volume, source }
    }

    /// One value, for `field`.
    pub fn one(&mut self, from: &KeySource, field: &str) -> Option<Spot> {
        match (&from.configuration_group_ref, &from.secret_ref) {
            (Some(group), None) => self.key_of_group(group, field),
            (None, Some(secret)) => self.keys_of_secret(&secret.name, Some(&secret.key), field).pop(),
            _ => {
                self.ambiguous(field);
                None
            }
        }
    }

    /// All values of a group or a Secret, for `field`; keys without a value for the environment are left out.
    pub fn all(&mut self, group: Option<&str>, secret: Option<&str>, field: &str) -> Vec<Spot> {
        match (group, secret) {
            (Some(group), None) => {
                let Some(object) = self.group(group, field) else { return vec![] };
                let keys = self.groups[&object].keys.iter();
                let values: Vec<_> =
                    keys.filter_map(|(key, held)| Some(((*key).to_owned(), (*held)?))).collect();
                values.into_iter().map(|(key, held)| self.spot(&object, &key, held)).collect()
            }
            (None, Some(secret)) => self.keys_of_secret(secret, None, field),
            _ => {
                self.ambiguous(field);
                vec![]
            }
        }
    }

    fn ambiguous(&mut self, field: &str) {
        let message = format!("{field}: set exactly one of configurationGroupRef and secretRef");
        self.problem(reasons::INVALID_CONFIGURATION, message);
    }

    /// Notes that a group is used; the name of its objects.
    fn group(&mut self, name: &str, field: &str) -> Option<String> {
        let inputs = self.inputs;
        let Some(group) = inputs.groups.get(name).copied() else {
            let message = format!("{field}: configuration group {name} does not exist; create it");
            self.problem(reasons::CONFIGURATION_GROUP_NOT_FOUND, message);
            return None;
        };
        let object = self.place.name_of(&group.name_any());
        if !self.groups.contains_key(&object) {
            let keys = keys_of(group, &self.place.environment);
            let logical_name = logical_name(group);
            let volumes =
                ["cm", "csi"].map(|suffix| names::generate(NameKind::Volume, &[&logical_name, suffix]));
            let group = Group { object: object.clone(), logical_name, volumes, keys };
            self.groups.insert(object.clone(), group);
        }
        Some(object)
    }

    fn key_of_group(&mut self, from: &KeyRef, field: &str) -> Option<Spot> {
        let KeyRef { name, key } = from;
        let object = self.group(name, field)?;
        let environment = &self.place.environment;
        let (reason, message) = match self.groups[&object].keys.get(key.as_str()) {
            Some(Some(held)) => {
                let held = *held;
                return Some(self.spot(&object, key, held));
            }
            Some(None) => (
                reasons::CONFIGURATION_VALUE_MISSING,
                format!(
                    "{field}: key {key} of configuration group {name} has no value for environment {environment}; add one"
                ),
            ),
            None => (
                reasons::CONFIGURATION_KEY_NOT_FOUND,
                format!(
                    "{field}: configuration group {name} has no key {key}; add it with a value for environment {environment}"
                ),
            ),
        };
        self.problem(reason, message);
        None
    }

    /// Notes that a value of a group is used.
    fn spot(&mut self, object: &str, key: &str, held: Held<'a>) -> Spot {
        let source = self.groups[object].logical_name.clone();
        let volume = self.groups[object].volume(held);
        let (carrier, seen) = match held {
            Held::Plain(value) => (Carrier::ConfigMap, value.as_bytes().into()),
            Held::Vault(path) => {
                self.vaulted.insert(object.to_owned());
                let (address, role) = self.vault();
                // What is in the vault is not known here; where it is read from is.
                (Carrier::Vault, format!("{address}\n{role}\n{path}").into_bytes().into())
            }
        };
        self.seen.insert((carrier, object.to_owned(), key.to_owned()), seen);
        Spot { carrier, object: object.to_owned(), key: key.to_owned(), volume, source }
    }

    /// Values of a Secret of the control plane: one, or all.
    fn keys_of_secret(&mut self, name: &str, key: Option<&str>, field: &str) -> Vec<Spot> {
        let inputs = self.inputs;
        let Some(values) = inputs.secrets.get(name) else {
            let message = format!(
                "{field}: Secret {name} cannot be used; it must be in namespace {} and carry the label {}: application",
                inputs.deployment.namespace().unwrap_or_default(),
                labels::SECRET_KIND
            );
            self.problem(reasons::SECRET_NOT_USABLE, message);
            return vec![];
        };
        if let Some(key) = key.filter(|key| !values.contains_key(*key)) {
            let message = format!(
                "{field}: Secret {name} has no key {key}; add it, and keep the label {}: application",
                labels::SECRET_KIND
            );
            self.problem(reasons::SECRET_NOT_USABLE, message);
            return vec![];
        }
        let object = objects::secret_name(self.place, name);
        let volume = names::generate(NameKind::Volume, &[name, "secret"]);
        let wanted = values.iter().filter(|(have, _)| key.is_none_or(|key| key == have.as_str()));
        let mut spots = vec![];
        for (key, value) in wanted {
            self.secrets.entry(name.to_owned()).or_default().insert(key.clone());
            self.seen.insert((Carrier::Secret, object.clone(), key.clone()), value.as_slice().into());
            let (object, volume, source) = (object.clone(), volume.clone(), name.to_owned());
            spots.push(Spot { carrier: Carrier::Secret, object, key: key.clone(), volume, source });
        }
        spots
    }

    /// What follows from all that was asked for.
    pub fn finish(mut self, problems: &mut Vec<Problem>) -> Configured {
        problems.append(&mut self.problems);
        problems.extend(self.missing_driver());
        problems.extend(self.outside_the_vault());
        Configured { objects: self.objects(), checksum: self.checksum() }
    }

    /// Address of the vault, and the role with which it is read.
    fn vault(&self) -> (&'a str, &'a str) {
        match &self.inputs.data_plane.spec.vault {
            Some(vault) => (&vault.address, &vault.role_name),
            None => (&self.inputs.settings.vault_address, &self.inputs.settings.vault_role),
        }
    }

    /// Sixteen hexadecimal digits. Only what the pod sees counts, so that other keys of a group do not restart it.
    fn checksum(&self) -> Option<String> {
        if self.seen.is_empty() {
            return None;
        }
        let mut hash = Sha256::new();
        for ((carrier, object, key), value) in &self.seen {
            let carrier: &[u8] = match carrier {
                Carrier::ConfigMap => b"ConfigMap",
                Carrier::Vault => b"SecretProviderClass",
                Carrier::Secret => b"Secret",
            };
            // With their lengths, so that no two lists of texts are one text.
            for text in [carrier, object.as_bytes(), key.as_bytes(), &**value] {
                hash.update((text.len() as u64).to_be_bytes());
                hash.update(text);
            }
        }
        let first = hash.finalize().iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Some(format!("{first:016x}"))
    }
}

/// The keys of a group and what they have for `environment`.
fn keys_of<'a>(group: &'a ConfigurationGroup, environment: &str) -> BTreeMap<&'a str, Option<Held<'a>>> {
    let sets = sets_of(group, environment);
    let mut keys = BTreeMap::new();
    for entry in &group.spec.configurations {
        keys.entry(entry.key.as_str()).or_insert_with(|| held(entry, environment, &sets));
    }
    keys
}
