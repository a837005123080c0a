//! The chart of the custom resource definitions: upgraded with it, kept without it.

use std::{fs, time::Duration};

use kantor_api::Organization;
use kantor_testbed::{
    Cluster,
    wait::{self, Seen},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};

use crate::support::{Administrator, project};

const DEFINITION: &str = "organizations.openchoreo.dev";

#[tokio::test(flavor = "multi_thread")]
async fn objects_outlive_upgrades_and_the_end_of_the_chart() {
    let cluster = Cluster::start().await.unwrap();
    let administrator = Administrator::of(&cluster);
    let chart = project("charts/kantor-crds").display().to_string();
    administrator.helm(&["install", "kantor-crds", &chart]);
    let organizations: Api<Organization> = Api::all(cluster.client());
    let acme = Organization::new("acme", kantor_api::organization::OrganizationSpec {});
    // Helm does not wait until what it has defined is served.
    wait::until("organizations are served", Duration::from_mins(1), || async {
        Ok(match organizations.list(&ListParams::default()).await {
            Ok(_) => Seen::Done(()),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await
    .unwrap();
    let created = organizations.create(&PostParams::default(), &acme).await.unwrap();
    let still_there = async || {
        let found = organizations.get("acme").await.unwrap();
        assert_eq!((found.uid(), found.metadata.deletion_timestamp), (created.uid(), None));
    };
    let short_names = || {
        let path = "jsonpath={.spec.names.shortNames}";
        let output = administrator.kubectl(&["get", "crd", DEFINITION, "-o", path], "");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };

    // A later version, with a change of a definition.
    let later = tempfile::tempdir().unwrap();
    let templates = later.path().join("templates");
    fs::create_dir(&templates).unwrap();
    let manifest = fs::read_to_string(project("charts/kantor-crds/Chart.yaml")).unwrap();
    fs::write(later.path().join("Chart.yaml"), manifest.replace("version: 0.1.0", "version: 0.1.1")).unwrap();
    for entry in fs::read_dir(project("charts/kantor-crds/templates")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("helm.sh/resource-policy: keep"), "{}", path.display());
        let text = if path.ends_with("openchoreo.dev_organizations.yaml") {
            let changed = text.replacen("    shortNames:\n", "    shortNames:\n    - later\n", 1);
            assert_ne!(changed, text);
            changed
        } else {
            text
        };
        fs::write(templates.join(path.file_name().unwrap()), text).unwrap();
    }
    assert!(!short_names().contains("later"));
    administrator.helm(&["upgrade", "kantor-crds", &later.path().display().to_string()]);
    assert!(short_names().contains("later"));
    still_there().await;

    administrator.helm(&["uninstall", "kantor-crds"]);
    still_there().await;

    // And back again, over what was kept.
    administrator.helm(&["upgrade", "--install", "kantor-crds", &chart]);
    assert!(!short_names().contains("later"));
    still_there().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_kubectl_made_can_be_taken_over() {
    let cluster = Cluster::start().await.unwrap();
    cluster.apply_dir(project("crds")).await.unwrap();
    let administrator = Administrator::of(&cluster);
    let chart = project("charts/kantor-crds").display().to_string();
    administrator.helm(&["install", "kantor-crds", &chart, "--take-ownership", "--force-conflicts"]);
}
