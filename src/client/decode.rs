//! Objects as they are read: without their managed fields, which are the larger part of most and which nobody here looks
//! at; and if one does not fit its kind, that one alone is lost.

use std::{borrow::Cow, fmt, marker::PhantomData};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{
        ApiResource, DynamicObject, DynamicResourceScope, PartialObjectMeta, TypeMeta,
        error_boundary::InvalidObject,
    },
};
use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, IntoDeserializer, MapAccess, Visitor,
        value::MapAccessDeserializer,
    },
    forward_to_deserialize_any,
};
use serde_json::value::RawValue;

/// How many objects of a list are read at a time: each page is in memory as a whole.
pub const PAGE: u32 = 100;

/// An object off the wire. Of one that does not fit its kind, its metadata and what is wrong.
#[derive(Clone, Debug)]
pub struct Read<K>(pub Result<K, InvalidObject>);

impl<'de, K: DeserializeOwned> Deserialize<'de> for Read<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match serde_json::from_str::<Lean<K>>(text.get()) {
            Ok(Lean(object)) => return Ok(Self(Ok(object))),
            Err(error) => error.to_string(),
        };
        let found: Lean<PartialObjectMeta> = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self(Err(InvalidObject { error, metadata: found.0.metadata })))
    }
}

/// By what it is told to be, so that there is one path for kinds with and without namespaces.
impl<K> Resource for Read<K>
where
    K: Resource,
{
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|invalid| &invalid.metadata, Resource::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|invalid| &mut invalid.metadata, Resource::meta_mut)
    }
}

/// An object that was written as text. As [`DynamicObject`]s are read otherwise, all parts of each are read twice.
pub fn unpack(text: &str) -> serde_json::Result<DynamicObject> {
    serde_json::from_str::<Unpacked>(text).map(|unpacked| unpacked.0)
}

struct Unpacked(DynamicObject);

impl<'de> Deserialize<'de> for Unpacked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Unpacked;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unpacked, A::Error> {
                let (mut api_version, mut kind, mut metadata) = (None, None, ObjectMeta::default());
                let mut data = serde_json::Map::new();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "apiVersion" => api_version = Some(map.next_value()?),
                        "kind" => kind = Some(map.next_value()?),
                        "metadata" => metadata = map.next_value()?,
                        _ => drop(data.insert(key, map.next_value()?)),
                    }
                }
                let types = api_version.zip(kind).map(|(api_version, kind)| TypeMeta { api_version, kind });
                Ok(Unpacked(DynamicObject { types, metadata, data: data.into() }))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// An object without its managed fields. They are passed over as they come: to read them and to throw them away would take
/// longer than all the rest.
struct Lean<K>(K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Lean<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<K>(PhantomData<K>);

        impl<'de, K: Deserialize<'de>> Visitor<'de> for Fields<K> {
            type Value = Lean<K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Lean<K>, A::Error> {
                let fields = ObjectFields { map, is_metadata: false };
                K::deserialize(MapAccessDeserializer::new(fields)).map(Lean)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// The fields of an object.
struct ObjectFields<A> {
    map: A,
    /// Whether the value that comes next is the metadata.
    is_metadata: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ObjectFields<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let Some(key) = self.map.next_key::<String>()? else { return Ok(None) };
        self.is_metadata = key == "metadata";
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        if self.is_metadata {
            self.map.next_value_seed(Metadata(seed))
        } else {
            self.map.next_value_seed(seed)
        }
    }
}

/// The metadata of an object: what reads it does not get to see the managed fields.
struct Metadata<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Metadata<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Metadata(deserializer))
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Metadata<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Metadata(visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Metadata<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Metadata(map))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Metadata<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        loop {
            let Some(key) = self.0.next_key::<String>()? else { return Ok(None) };
            if key != "managedFields" {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            self.0.next_value::<IgnoredAny>()?;
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kantor_api::Project;
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::{Value, json};

    use super::*;

    fn text() -> Value {
        let managed = json!([{"manager": "kubectl", "operation": "Apply", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:managedFields": {}}}}]);
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "b", "managedFields": managed, "labels": {"managedFields": "x"},
                "creationTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["f"], "generation": 3},
            "data": {"metadata": "kept", "managedFields": "kept"},
        })
    }

    fn without(mut value: Value) -> Value {
        value["metadata"].as_object_mut().unwrap().remove("managedFields").unwrap();
        value
    }

    #[test]
    fn objects_are_read_as_without_managed_fields_and_nothing_else_is_lost() {
        let read: Read<DynamicObject> = serde_json::from_str(&text().to_string()).unwrap();
        assert_eq!(serde_json::to_value(read.0.unwrap()).unwrap(), without(text()));
        let read: Read<ConfigMap> = serde_json::from_str(&text().to_string()).unwrap();
        let expected: ConfigMap = serde_json::from_value(without(text())).unwrap();
        assert_eq!(read.0.unwrap(), expected);
        let read: Read<PartialObjectMeta<ConfigMap>> = serde_json::from_str(&text().to_string()).unwrap();
        assert_eq!(read.0.unwrap().metadata, expected.metadata);
    }

    #[test]
    fn what_was_written_as_text_is_read_as_it_was() {
        let object: DynamicObject = serde_json::from_value(text()).unwrap();
        assert_eq!(unpack(&serde_json::to_string(&object).unwrap()).unwrap(), object);
        let numbers = json!({"metadata": {"name": "a"}, "spec": {"float": 0.1, "odd": 2.225_073_858_507_201_4e-308, "big": u64::MAX}});
        let mut object: DynamicObject = serde_json::from_value(numbers).unwrap();
        assert_eq!(unpack(&serde_json::to_string(&object).unwrap()).unwrap(), object);
        // As of a ServiceAccount, and of objects of which the metadata alone is followed.
        object.data = json!({});
        assert_eq!(unpack(&serde_json::to_string(&object).unwrap()).unwrap(), object);
    }

    #[test]
    fn objects_are_read_in_lists_and_in_events() {
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "7"}, "items": [text()]});
        let list: ObjectList<Read<ConfigMap>> = serde_json::from_str(&list.to_string()).unwrap();
        assert_eq!(list.items.len(), 1);
        assert!(list.items[0].meta().managed_fields.is_none());
        // The server names the type first.
        let event = format!(r#"{{"type":"MODIFIED","object":{}}}"#, text());
        let WatchEvent::Modified(read) = serde_json::from_str::<WatchEvent<Read<ConfigMap>>>(&event).unwrap()
        else {
            panic!("another event")
        };
        assert_eq!(read.meta().name.as_deref(), Some("a"));
    }

    #[test]
    fn what_does_not_fit_its_kind_is_known_by_its_metadata() {
        let mut project = text();
        project["spec"] = json!({"deploymentPipelineRef": 7});
        let read: Read<Project> = serde_json::from_str(&project.to_string()).unwrap();
        let invalid = read.0.unwrap_err();
        assert!(invalid.error.contains("invalid type: integer `7`"), "{}", invalid.error);
        assert_eq!((invalid.metadata.name.as_deref(), invalid.metadata.managed_fields), (Some("a"), None));
        assert!(serde_json::from_str::<Read<Project>>("[]").is_err());
    }
}
