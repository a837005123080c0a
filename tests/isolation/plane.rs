//! A data plane in memory: what its API server accepts, refuses and deletes, and whose each object really is.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::common::InventoryItem;
use kantor_core::changes::{ObjectKey, identity};
use kube::{ResourceExt, api::DynamicObject};

/// Owner of what was on a plane before Kantor.
pub const NOBODY: &str = "nobody";

/// What the API server answers to a write that it does not carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The object exists, is another one, or is another version of it.
    Conflict,
    /// The namespace is missing or being deleted.
    Refused,
}

#[derive(Clone, Debug)]
pub struct Stored {
    pub object: DynamicObject,
    /// The organization that the object was last written for.
    pub organization: String,
}

/// The API server of a data plane.
#[derive(Clone, Debug, Default)]
pub struct Plane {
    pub objects: BTreeMap<ObjectKey, Stored>,
    pub answers: bool,
    /// Groups that discovery does not list at the moment.
    pub unserved: BTreeSet<String>,
    /// What should never happen, and did.
    pub violations: Vec<String>,
    version: u64,
    /// What was written, for people who replay a history.
    pub log: Vec<String>,
}

pub fn key_of(object: &DynamicObject) -> ObjectKey {
    let (group, _, kind) = identity(object);
    (group, kind, object.namespace().unwrap_or_default(), object.name_any())
}

pub fn namespace_key(name: &str) -> ObjectKey {
    (String::new(), "Namespace".to_owned(), String::new(), name.to_owned())
}

pub fn item_key(item: &InventoryItem) -> ObjectKey {
    kantor_core::changes::object_key(item)
}

/// Whether an object has the UID and the version that a request names.
fn holds((uid, version): (Option<&str>, Option<&str>), object: &DynamicObject) -> bool {
    let metadata = &object.metadata;
    uid.is_none_or(|uid| metadata.uid.as_deref() == Some(uid))
        && version.is_none_or(|version| metadata.resource_version.as_deref() == Some(version))
}

impl Plane {
    pub fn get(&self, key: &ObjectKey) -> Option<&DynamicObject> {
        self.objects.get(key).map(|stored| &stored.object)
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn stamp(&mut self, object: &mut DynamicObject, uid: Option<String>) {
        let version = self.next_version();
        object.metadata.uid = Some(uid.unwrap_or_else(|| format!("uid-{version}")));
        object.metadata.resource_version = Some(version);
    }

    /// Puts an object there that was there before Kantor.
    pub fn seed(&mut self, mut object: DynamicObject) {
        self.stamp(&mut object, None);
        self.objects.insert(key_of(&object), Stored { object, organization: NOBODY.to_owned() });
    }

    /// Makes an object, if there is none.
    pub fn create(
        &mut self,
        mut object: DynamicObject,
        organization: &str,
    ) -> Result<DynamicObject, Failure> {
        let key = key_of(&object);
        if self.objects.contains_key(&key) {
            return Err(Failure::Conflict);
        }
        if !key.2.is_empty() {
            let Some(namespace) = self.objects.get(&namespace_key(&key.2)) else {
                return Err(Failure::Refused);
            };
            if namespace.object.metadata.deletion_timestamp.is_some() {
                return Err(Failure::Refused);
            }
            if namespace.organization != NOBODY && namespace.organization != organization {
                let violation =
                    format!("{organization} makes {key:?} in a namespace of {}", namespace.organization);
                self.violations.push(violation);
            }
        }
        self.stamp(&mut object, None);
        self.log.push(format!("{organization} makes {key:?}"));
        self.objects.insert(key, Stored { object: object.clone(), organization: organization.to_owned() });
        Ok(object)
    }

    /// Changes the object with this UID, and with this version if one is given.
    pub fn update(
        &mut self,
        mut object: DynamicObject,
        preconditions: (Option<&str>, Option<&str>),
        organization: &str,
    ) -> Result<DynamicObject, Failure> {
        let key = key_of(&object);
        let Some(before) = self.objects.get(&key) else { return Err(Failure::Conflict) };
        let metadata = &before.object.metadata;
        if !holds(preconditions, &before.object) {
            return Err(Failure::Conflict);
        }
        if before.organization != NOBODY && before.organization != organization {
            let violation = format!("{organization} writes {key:?} of {}", before.organization);
            self.violations.push(violation);
        }
        let uid = metadata.uid.clone();
        // Labels of others stay, as server-side apply leaves them.
        for (name, value) in before.object.labels().clone() {
            object.labels_mut().entry(name).or_insert(value);
        }
        object.metadata.deletion_timestamp.clone_from(&before.object.metadata.deletion_timestamp);
        self.stamp(&mut object, uid);
        self.log.push(format!("{organization} changes {key:?}"));
        self.objects.insert(key, Stored { object: object.clone(), organization: organization.to_owned() });
        Ok(object)
    }

    /// Deletes the object with this UID, and with this version if one is given. True if it has gone.
    pub fn delete(
        &mut self,
        key: &ObjectKey,
        preconditions: (Option<&str>, Option<&str>),
        organization: &str,
    ) -> Result<bool, Failure> {
        let Some(found) = self.objects.get(key) else { return Ok(true) };
        if !holds(preconditions, &found.object) {
            return Err(Failure::Conflict);
        }
        // What nobody has, where everybody may write, could be taken over and deleted then.
        let is_open = found.organization == NOBODY && key.2.starts_with("open-");
        if found.organization != organization && !is_open {
            let violation = format!("{organization} deletes {key:?} of {}", found.organization);
            self.violations.push(violation);
        }
        self.log.push(format!("{organization} deletes {key:?}"));
        if key.1 != "Namespace" {
            self.objects.remove(key);
            return Ok(true);
        }
        let of_others = self
            .objects
            .iter()
            .find(|(inside, stored)| inside.2 == key.3 && stored.organization != organization);
        if let Some((inside, stored)) = of_others {
            let violation =
                format!("{organization} deletes {key:?} with {inside:?} of {}", stored.organization);
            self.violations.push(violation);
        }
        let version = self.next_version();
        if let Some(found) = self.objects.get_mut(key) {
            found.object.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
            found.object.metadata.resource_version = Some(version);
        }
        Ok(false)
    }

    /// The namespace controller does one thing.
    pub fn finish_a_deletion(&mut self) {
        let is_going = |stored: &Stored| stored.object.metadata.deletion_timestamp.is_some();
        let going = self.objects.iter().find(|(_, stored)| is_going(stored)).map(|(key, _)| key.clone());
        let Some(namespace) = going else { return };
        let inside = self.objects.keys().find(|key| key.2 == namespace.3).cloned();
        self.objects.remove(&inside.unwrap_or(namespace));
    }

    pub fn is_served(&self, group: &str) -> bool {
        !self.unserved.contains(group)
    }
}
