//! Whether a custom resource definition that is installed knows all fields of the one that this operator was built with.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool,
};

/// How an installed definition stands to the one that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It knows every field; it may be newer.
    Fits,
    /// The API server would drop these fields, which this operator reads or writes.
    Older {
        /// Paths of fields that it does not know.
        lacks: Vec<String>,
    },
}

/// Compares an installed definition with the one that is needed.
pub fn fit(installed: &CustomResourceDefinition, needed: &CustomResourceDefinition) -> Fit {
    let mut lacks = vec![];
    for version in &needed.spec.versions {
        let there = installed.spec.versions.iter().find(|other| other.name == version.name && other.served);
        let Some(there) = there else {
            lacks.push(format!("version {}", version.name));
            continue;
        };
        if let Some(needed) = schema(version) {
            compare(schema(there), needed, "", &mut lacks);
        }
        if has_status(version) && !has_status(there) {
            lacks.push("the status subresource".to_owned());
        }
    }
    if lacks.is_empty() { Fit::Fits } else { Fit::Older { lacks } }
}

fn schema(version: &CustomResourceDefinitionVersion) -> Option<&JSONSchemaProps> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn has_status(version: &CustomResourceDefinitionVersion) -> bool {
    version.subresources.as_ref().is_some_and(|resources| resources.status.is_some())
}

fn compare(there: Option<&JSONSchemaProps>, needed: &JSONSchemaProps, path: &str, lacks: &mut Vec<String>) {
    let Some(there) = there else {
        lacks.push(path.trim_start_matches('.').to_owned());
        return;
    };
    // What is not checked is kept as it is.
    if there.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    for (name, needed) in needed.properties.iter().flatten() {
        let below = there.properties.as_ref().and_then(|properties| properties.get(name));
        compare(below, needed, &format!("{path}.{name}"), lacks);
    }
    if let (Some(JSONSchemaPropsOrArray::Schema(needed)), Some(JSONSchemaPropsOrArray::Schema(there))) =
        (&needed.items, &there.items)
    {
        compare(Some(there), needed, &format!("{path}[]"), lacks);
    }
    if let (Some(JSONSchemaPropsOrBool::Schema(needed)), Some(JSONSchemaPropsOrBool::Schema(there))) =
        (&needed.additional_properties, &there.additional_properties)
    {
        compare(Some(there), needed, &format!("{path}.*"), lacks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(kind: &str) -> CustomResourceDefinition {
        kantor_api::crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap()
    }

    /// The schema of the first version, to be changed.
    fn open(crd: &mut CustomResourceDefinition) -> &mut JSONSchemaProps {
        crd.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap()
    }

    fn below<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> &'a mut JSONSchemaProps {
        schema.properties.as_mut().unwrap().get_mut(name).unwrap()
    }

    #[test]
    fn every_definition_fits_itself() {
        for crd in kantor_api::crds() {
            assert_eq!(fit(&crd, &crd), Fit::Fits, "{}", crd.spec.names.kind);
        }
    }

    #[test]
    fn a_definition_with_more_fields_fits() {
        let mut newer = definition("DataPlane");
        below(open(&mut newer), "spec")
            .properties
            .as_mut()
            .unwrap()
            .insert("later".to_owned(), JSONSchemaProps::default());
        assert_eq!(fit(&newer, &definition("DataPlane")), Fit::Fits);
    }

    #[test]
    fn fields_that_would_be_dropped_are_named() {
        let mut older = definition("DataPlane");
        below(open(&mut older), "spec").properties.as_mut().unwrap().remove("releasePolicy");
        below(open(&mut older), "status").properties.as_mut().unwrap().remove("clusterUID");
        let Fit::Older { lacks } = fit(&older, &definition("DataPlane")) else { panic!("it fits") };
        assert_eq!(lacks, ["spec.releasePolicy", "status.clusterUID"]);
    }

    #[test]
    fn fields_inside_lists_count() {
        let mut older = definition("Release");
        let resources = below(below(open(&mut older), "spec"), "resources");
        let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut resources.items else { panic!("no list") };
        items.properties.as_mut().unwrap().remove("id");
        let lacks = Fit::Older { lacks: vec!["spec.resources[].id".to_owned()] };
        assert_eq!(fit(&older, &definition("Release")), lacks);
    }

    #[test]
    fn a_version_that_is_not_served_is_missing() {
        let mut older = definition("Project");
        older.spec.versions[0].served = false;
        let lacks = Fit::Older { lacks: vec!["version v1alpha1".to_owned()] };
        assert_eq!(fit(&older, &definition("Project")), lacks);
        let mut older = definition("Project");
        older.spec.versions[0].subresources = None;
        let lacks = Fit::Older { lacks: vec!["the status subresource".to_owned()] };
        assert_eq!(fit(&older, &definition("Project")), lacks);
    }

    #[test]
    fn what_is_kept_unchecked_lacks_nothing() {
        let mut loose = definition("Release");
        let spec = below(open(&mut loose), "spec");
        spec.x_kubernetes_preserve_unknown_fields = Some(true);
        spec.properties = None;
        assert_eq!(fit(&loose, &definition("Release")), Fit::Fits);
    }
}
