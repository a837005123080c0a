//! Variables and files: how values get into a container.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use kantor_api::{
    application::{Application, EnvFrom, EnvVar, FileMount, MountRef},
    common::NameRef,
    conditions::reasons,
    names::{self, NameKind},
};
use serde_json::{Value, json};

use super::{
    Problem,
    sources::{Carrier, Sources, Spot},
    values::{clean_path, file_name, variable},
};
use crate::json::map;

/// Where secret values are mounted that are only used as variables.
const SECRETS_FOLDER: &str = "/mnt/secrets-store";

/// Variables and files of a container.
#[derive(Default)]
pub(super) struct Wiring {
    env: Vec<Value>,
    /// By name.
    volumes: BTreeMap<String, Value>,
    /// By path, so that a folder is mounted before what is inside it.
    mounts: BTreeMap<String, Mount>,
}

struct Mount {
    /// What asks for it.
    field: String,
    body: Value,
}

/// Variables and files that `application` asks for.
pub(super) fn wiring<'a>(
    application: &'a Application,
    sources: &mut Sources<'a>,
    problems: &mut Vec<Problem>,
) -> Wiring {
    let mut wiring = Wiring::default();
    wiring.env(&application.env, &application.env_from, sources, problems);
    for file in &application.file_mounts {
        wiring.file(file, sources, problems);
    }
    let mut folders = BTreeSet::new();
    for from in &application.file_mounts_from {
        let (group, secret) = (from.configuration_group_ref.as_ref(), from.secret_ref.as_ref());
        let path = group.or(secret).map(|from| clean_path(&from.mount_path).into_owned()).unwrap_or_default();
        let name = |from: &MountRef| from.name.clone();
        let (group, secret) = (group.map(name), secret.map(name));
        if !folders.insert((group.clone(), secret.clone(), path.clone())) {
            continue;
        }
        let field = format!("fileMountsFrom {path}");
        for spot in sources.all(group.as_deref(), secret.as_deref(), &field) {
            let field = format!("{field} (key {} of {})", spot.key, spot.source);
            let path = format!("{path}/{}", file_name(&spot.key));
            wiring.mount(&clean_path(&path), field, &spot, problems);
        }
    }
    wiring
}

pub(super) fn invalid(message: String) -> Problem {
    Problem::artifact(reasons::INVALID_CONFIGURATION, message)
}

impl Wiring {
    /// Variables, mounts and volumes.
    pub fn into_parts(self) -> [Vec<Value>; 3] {
        let mounts = self.mounts.into_values().map(|mount| mount.body);
        [self.env, mounts.collect(), self.volumes.into_values().collect()]
    }

    /// Direct values, references, and then what comes from whole sources; the first two in the order in which they are
    /// written, since later ones may refer to earlier ones.
    fn env(
        &mut self,
        env: &[EnvVar],
        env_from: &[EnvFrom],
        sources: &mut Sources<'_>,
        problems: &mut Vec<Problem>,
    ) {
        let (mut direct, mut mapped) = (vec![], vec![]);
        let mut vaulted = vec![];
        for EnvVar { key, value, value_from } in env {
            match (value, value_from) {
                (value, None) => {
                    let value = value.as_deref().unwrap_or_default();
                    direct.push(json!({"name": key, "value": value}));
                }
                (None, Some(from)) => {
                    if let Some(spot) = sources.one(from, &format!("env {key}")) {
                        mapped.push(map([("name", key.as_str().into()), ("valueFrom", reference(&spot))]));
                        vaulted.push(spot);
                    }
                }
                (Some(_), Some(_)) => {
                    problems.push(invalid(format!("env {key}: set value or valueFrom, not both")));
                }
            }
        }
        let named: BTreeSet<&str> = env.iter().map(|env| env.key.as_str()).collect();
        let mut rest: BTreeMap<String, BTreeSet<Spot>> = BTreeMap::new();
        for from in env_from {
            let name = |from: &NameRef| from.name.clone();
            let group = from.configuration_group_ref.as_ref().map(name);
            let secret = from.secret_ref.as_ref().map(name);
            for spot in sources.all(group.as_deref(), secret.as_deref(), "envFrom") {
                let name = variable(&spot.key);
                if !named.contains(name.as_str()) {
                    rest.entry(name).or_default().insert(spot);
                }
            }
        }
        let mut whole = vec![];
        for (name, spots) in rest {
            if spots.len() > 1 {
                let all: Vec<String> =
                    spots.iter().map(|spot| format!("key {} of {}", spot.key, spot.source)).collect();
                problems.push(invalid(format!(
                    "envFrom: variable {name} comes from {}; say under env {name} which one it is",
                    all.join(" and from ")
                )));
            }
            if let Some(spot) = spots.into_iter().next() {
                whole.push(map([("name", name.into()), ("valueFrom", reference(&spot))]));
                vaulted.push(spot);
            }
        }
        self.env = direct;
        self.env.extend(mapped.into_iter().chain(whole));
        for spot in vaulted.into_iter().filter(|spot| spot.carrier == Carrier::Vault) {
            self.secrets_for_env(&spot, problems);
        }
    }

    /// The driver makes the Secret that variables refer to only while a pod mounts it.
    fn secrets_for_env(&mut self, spot: &Spot, problems: &mut Vec<Problem>) {
        let name = names::generate(NameKind::Volume, &[&spot.source, "csi-env"]);
        if self.volumes.contains_key(&name) {
            return;
        }
        let path = format!("{SECRETS_FOLDER}/{}", spot.source);
        let body = json!({"name": name, "mountPath": path});
        self.volumes.insert(name.clone(), volume(&name, spot));
        self.place(&path, format!("configuration group {}", spot.source), body, problems);
    }

    fn file<'a>(&mut self, file: &'a FileMount, sources: &mut Sources<'a>, problems: &mut Vec<Problem>) {
        let FileMount { mount_path: path, value, value_from } = file;
        let field = format!("fileMounts {path}");
        let spot = match (value, value_from) {
            (value, None) => Some(sources.inline(path, value.as_deref().unwrap_or_default())),
            (None, Some(from)) => sources.one(from, &field),
            (Some(_), Some(_)) => {
                problems.push(invalid(format!("{field}: set value or valueFrom, not both")));
                None
            }
        };
        if let Some(spot) = spot {
            self.mount(path, field, &spot, problems);
        }
    }

    /// One value as the file at `path`.
    fn mount(&mut self, path: &str, field: String, spot: &Spot, problems: &mut Vec<Problem>) {
        self.volumes.entry(spot.volume.clone()).or_insert_with(|| volume(&spot.volume, spot));
        let body = json!({"name": spot.volume, "mountPath": path, "subPath": spot.key});
        self.place(path, field, body, problems);
    }

    fn place(&mut self, path: &str, field: String, body: Value, problems: &mut Vec<Problem>) {
        let path = clean_path(path).into_owned();
        if path == "/" {
            problems.push(invalid(format!("{field}: a file cannot be mounted at the root; name it")));
        }
        match self.mounts.entry(path) {
            Entry::Vacant(free) => {
                free.insert(Mount { field, body });
            }
            Entry::Occupied(taken) => {
                let mut fields = [field, taken.get().field.clone()];
                fields.sort();
                let [one, other] = fields;
                let path = taken.key();
                problems.push(invalid(format!("{path} is mounted twice: by {one} and by {other}; keep one")));
            }
        }
    }
}

/// A value as a variable.
fn reference(spot: &Spot) -> Value {
    let key = json!({"name": spot.object, "key": spot.key});
    match spot.carrier {
        Carrier::ConfigMap => map([("configMapKeyRef", key)]),
        Carrier::Vault | Carrier::Secret => map([("secretKeyRef", key)]),
    }
}

/// The volume of that name with the values that `spot` is one of.
fn volume(name: &str, spot: &Spot) -> Value {
    match spot.carrier {
        Carrier::ConfigMap => json!({"name": name, "configMap": {"name": spot.object}}),
        Carrier::Secret => json!({"name": name, "secret": {"secretName": spot.object}}),
        Carrier::Vault => json!({"name": name, "csi": {
            "driver": "secrets-store.csi.k8s.io",
            "readOnly": true,
            "volumeAttributes": {"secretProviderClass": spot.object},
        }}),
    }
}
