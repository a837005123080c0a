//! Values from configuration groups and Secrets, overrides, and what they change of the pods.

use k8s_openapi::api::{core::v1::Secret, events::v1::Event};
use kantor_api::{ConfigurationGroup, DeployableArtifact, Deployment};
use kantor_testbed::snapshot::{Options, Snapshot};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::support::{DeploymentFixture, IMAGE, endpoint, item, namespace};
use crate::acme::{environment, object};

/// A value of a configuration group that differs from environment to environment.
fn entry(key: &str, dev: &str, prod: &str) -> Value {
    json!({"key": key, "values": [{"environment": "dev", "value": dev}, {"environment": "prod", "value": prod}]})
}

async fn group(fixture: &DeploymentFixture, name: &str, configurations: Value) {
    let spec = json!({"configurations": configurations});
    fixture.control.create::<ConfigurationGroup>(&object("ConfigurationGroup", name, spec)).await;
}

async fn edit_group(fixture: &DeploymentFixture, name: &str, configurations: Value) {
    let patch = json!({"spec": {"configurations": configurations}});
    fixture.control.patch::<ConfigurationGroup>(&format!("acme/{name}"), patch).await;
}

fn container(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]["containers"][0]
}

/// What a variable of the container refers to, or its value.
fn variable<'a>(workload: &'a Value, name: &str) -> &'a Value {
    let env = container(workload)["env"].as_array().unwrap();
    env.iter().find(|env| env["name"] == name).unwrap_or_else(|| panic!("no {name}: {env:#?}"))
}

fn checksum(workload: &Value) -> &Value {
    &workload["spec"]["template"]["metadata"]["annotations"]["openchoreo.dev/configuration-checksum"]
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_groups_arrive_for_each_environment_and_a_changed_one_rolls_the_pods() {
    let fixture = DeploymentFixture::open().await;
    environment(&fixture.control, "prod", "plane").await;
    group(
        &fixture,
        "words",
        json!([entry("greeting", "hi", "good day"), entry("log-level", "debug", "info")]),
    )
    .await;
    group(&fixture, "files", json!([entry("menu.txt", "tea", "coffee")])).await;
    group(&fixture, "unrelated", json!([entry("key", "a", "b")])).await;
    let from = |name: &str, key: &str| json!({"configurationGroupRef": {"name": name, "key": key}});
    let application = json!({
        "env": [{"key": "COLOUR", "value": "blue"}, {"key": "GREETING", "valueFrom": from("words", "greeting")}],
        "envFrom": [{"configurationGroupRef": {"name": "words"}}],
        "fileMounts": [{"mountPath": "/etc/menu", "valueFrom": from("files", "menu.txt")}],
        "resourceLimits": {"cpu": "100m", "memory": "64Mi"},
        "probes": {"readinessProbe": {"httpGet": {"path": "/health", "port": 8080}}},
    });
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": application});
    fixture.artifact("cart", "cart", IMAGE, configuration).await;
    fixture.deploy("cart-dev", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let over = json!({"env": [{"key": "COLOUR", "value": "red"}], "resourceLimits": {"cpu": "1"}});
    fixture
        .deploy(
            "cart-prod",
            "cart",
            "prod",
            json!({"deploymentArtifactRef": "cart", "configurationOverrides": {"application": over}}),
        )
        .await;

    for (name, greeting, level, menu, colour, cpu) in [
        ("cart-dev", "hi", "debug", "tea", "blue", "100m"),
        ("cart-prod", "good day", "info", "coffee", "red", "1"),
    ] {
        let deployment = fixture.ready(name).await;
        let workload = fixture.live(&deployment, "Deployment").await;
        assert_eq!(variable(&workload, "COLOUR")["value"], colour);
        for (variable_name, value) in [("GREETING", greeting), ("LOG_LEVEL", level)] {
            let from = &variable(&workload, variable_name)["valueFrom"]["configMapKeyRef"];
            let (map, key) = (from["name"].as_str().unwrap(), from["key"].as_str().unwrap());
            let map = fixture.plane.get("v1/ConfigMap", &namespace(&deployment), map).await.unwrap();
            assert_eq!(map["data"][key], value, "{variable_name} of {name}");
        }
        let mount = &container(&workload)["volumeMounts"][0];
        assert_eq!(
            (mount["mountPath"].as_str(), mount["subPath"].as_str()),
            (Some("/etc/menu"), Some("menu.txt"))
        );
        let volumes = workload["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let map = volume["configMap"]["name"].as_str().unwrap();
        let map = fixture.plane.get("v1/ConfigMap", &namespace(&deployment), map).await.unwrap();
        assert_eq!(map["data"]["menu.txt"], menu);
        assert_eq!(container(&workload)["resources"]["limits"], json!({"cpu": cpu, "memory": "64Mi"}));
        assert_eq!(container(&workload)["readinessProbe"]["httpGet"]["path"], "/health");
    }

    // What the pods do not see does not touch them.
    let deployment = fixture.ready("cart-dev").await;
    let production = fixture.ready("cart-prod").await;
    fixture.quiet().await;
    let before = fixture.live(&deployment, "Deployment").await;
    let former = fixture.live(&production, "Deployment").await;
    edit_group(&fixture, "unrelated", json!([entry("key", "c", "d")])).await;
    edit_group(&fixture, "files", json!([entry("menu.txt", "tea", "brandy"), entry("more", "x", "y")])).await;
    let touch = json!({"metadata": {"annotations": {"note": "seen"}, "labels": {"team": "blue"}}});
    fixture.control.patch::<DeployableArtifact>("acme/cart", touch).await;
    let rolled = fixture
        .workload("production is rolled", &production, |workload| {
            (checksum(workload) != checksum(&former)).then(|| checksum(workload).clone())
        })
        .await;
    fixture.quiet().await;
    let after = fixture.live(&deployment, "Deployment").await;
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(after["spec"]["template"], before["spec"]["template"]);

    // What they see only as a file does, even if it is as long as before.
    edit_group(&fixture, "files", json!([entry("menu.txt", "rum", "brandy")])).await;
    fixture
        .workload("the pods are rolled", &deployment, |workload| {
            (checksum(workload) != checksum(&before)).then_some(())
        })
        .await;
    fixture.ready("cart-dev").await;
    fixture.quiet().await;
    assert_eq!(
        checksum(&fixture.live(&production, "Deployment").await),
        &rolled,
        "only where the value changed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_and_heals_when_it_appears() {
    let fixture = DeploymentFixture::open().await;
    let from = json!({"configurationGroupRef": {"name": "words", "key": "greeting"}});
    let application = json!({"env": [{"key": "GREETING", "valueFrom": from}]});
    fixture.artifact("cart", "cart", IMAGE, json!({"application": application})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let says = |message: String, words: &[&str]| {
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    let message = fixture.wait_condition("cart", "Ready", "False", "ConfigurationGroupNotFound").await;
    says(message, &["GREETING", "words"]);
    fixture.wait_condition("cart", "ArtifactResolved", "False", "ConfigurationGroupNotFound").await;
    let generation = fixture.control.wait_exists::<Deployment>("acme/cart").await.metadata.generation;

    group(&fixture, "words", json!([entry("farewell", "bye", "bye")])).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "ConfigurationKeyNotFound").await;
    says(message, &["GREETING", "words", "greeting", "dev"]);
    edit_group(
        &fixture,
        "words",
        json!([{"key": "greeting", "values": [{"environment": "prod", "value": "x"}]}]),
    )
    .await;
    let message = fixture.wait_condition("cart", "Ready", "False", "ConfigurationValueMissing").await;
    says(message, &["GREETING", "words", "greeting", "dev"]);
    edit_group(&fixture, "words", json!([entry("greeting", "hi", "x")])).await;
    let healed = fixture.ready("cart").await;
    assert_eq!(healed.metadata.generation, generation);

    // What is there stays while something is missing, and says that it is no longer what is asked for.
    fixture.control.delete::<ConfigurationGroup>("acme/words").await;
    fixture.wait_condition("cart", "Ready", "False", "ConfigurationGroupNotFound").await;
    fixture.live(&healed, "Deployment").await;
    fixture.live(&healed, "ConfigMap").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_copied_only_if_it_may_be_and_its_value_is_told_to_nobody() {
    const FIRST: &str = "correct-horse-battery";
    const SECOND: &str = "staple-and-some-more";
    let fixture = DeploymentFixture::open().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "acme"},
        "stringData": {"password": FIRST, "unused": "left-at-home"}});
    fixture.control.create::<Secret>(&serde_json::from_value(secret).unwrap()).await;
    let from = json!({"secretRef": {"name": "login", "key": "password"}});
    let application = json!({"env": [{"key": "PASSWORD", "valueFrom": from}]});
    fixture.artifact("cart", "cart", IMAGE, json!({"application": application})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "SecretNotUsable").await;
    assert!(message.contains("login") && message.contains("application"), "{message}");

    let label = |value: Value| json!({"metadata": {"labels": {"openchoreo.dev/secret-kind": value}}});
    fixture.control.patch::<Secret>("acme/login", label("application".into())).await;
    let deployment = fixture.ready("cart").await;
    let workload = fixture.live(&deployment, "Deployment").await;
    let from = &variable(&workload, "PASSWORD")["valueFrom"]["secretKeyRef"];
    assert_eq!(
        (from["name"].as_str(), from["key"].as_str()),
        (Some(&*item(&deployment, "Secret").name), Some("password"))
    );
    let copy = fixture.live(&deployment, "Secret").await;
    let value = |copy: &Value| {
        let data: Secret = serde_json::from_value(copy.clone()).unwrap();
        data.data.unwrap().into_iter().map(|(k, v)| (k, String::from_utf8(v.0).unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(value(&copy), [("password".to_owned(), FIRST.to_owned())], "only what is used");

    fixture.control.patch::<Secret>("acme/login", json!({"stringData": {"password": SECOND}})).await;
    fixture
        .workload("the pods are rolled", &deployment, |now| {
            (checksum(now) != checksum(&workload)).then_some(())
        })
        .await;
    fixture.ready("cart").await;
    assert_eq!(
        value(&fixture.live(&deployment, "Secret").await),
        [("password".to_owned(), SECOND.to_owned())]
    );

    // Somebody changes the copy: the Event about it names the field at most.
    let other = json!({"stringData": {"password": "guess"}});
    fixture.plane.patch("v1/Secret", &namespace(&deployment), &item(&deployment, "Secret").name, other).await;
    fixture
        .plane
        .until(
            "the copy is repaired",
            ("v1/Secret", &namespace(&deployment), &item(&deployment, "Secret").name),
            |found| (value(found?)[0].1 == SECOND).then_some(()),
        )
        .await;
    fixture.quiet().await;
    let events: Api<Event> = Api::all(fixture.control.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    // All that there is, on both clusters, but the Secret itself and its copy; with what the operator tells of itself.
    let mut told =
        format!("{}\n{}\n", fixture.control.operator.log(), serde_json::to_string(&events).unwrap());
    told.push_str(&fixture.control.operator.get("/metrics").await.unwrap().1);
    for client in [&fixture.control.client, &fixture.plane.client] {
        let options = Options::default().ignore_kind("", "Secret");
        let snapshot = Snapshot::take(client, &options).await.unwrap();
        told.extend(snapshot.objects().values().map(|object| format!("{object}\n")));
    }
    assert!(told.contains("kantor_reconciles_total") && told.contains("configuration-checksum"));
    // As it is, and as the API writes it.
    for text in [FIRST, SECOND, "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", "c3RhcGxlLWFuZC1zb21lLW1vcmU="] {
        assert!(!told.contains(text), "{text} was told");
    }

    fixture.control.patch::<Secret>("acme/login", label(Value::Null)).await;
    fixture.wait_condition("cart", "Ready", "False", "SecretNotUsable").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_others_set_are_left_alone() {
    let fixture = DeploymentFixture::open().await;
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)]});
    fixture.artifact("cart", "cart", IMAGE, configuration).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = fixture.ready("cart").await;
    let (home, name) = (namespace(&deployment), item(&deployment, "Deployment").name.clone());
    fixture.plane.patch("apps/v1/Deployment", &home, &name, json!({"spec": {"replicas": 3}})).await;
    let change = |colour: &str| json!({"env": [{"key": "COLOUR", "value": colour}]});
    fixture.configure("cart", change("blue")).await;
    let scaled = |colour: &'static str, replicas: u32| {
        move |workload: &Value| {
            let env = &container(workload)["env"][0]["value"];
            (env == colour && workload["status"]["readyReplicas"] == replicas)
                .then(|| workload["spec"]["replicas"].clone())
        }
    };
    assert_eq!(fixture.workload("three are blue", &deployment, scaled("blue", 3)).await, 3);

    // Once an autoscaler is asked for, it sets them, within its bounds.
    let hpa = json!({"hpa": {"minReplicas": 2, "maxReplicas": 5, "cpuThreshold": 70}});
    fixture.configure("cart", json!({"scaling": hpa})).await;
    fixture.ready("cart").await;
    let deployment = fixture
        .until("there is an autoscaler", "cart", |found| {
            let inventory = &found.status.as_ref()?.inventory;
            inventory.iter().any(|item| item.kind == "HorizontalPodAutoscaler").then(|| found.clone())
        })
        .await;
    let scaler = fixture.live(&deployment, "HorizontalPodAutoscaler").await;
    assert_eq!(
        (scaler["spec"]["minReplicas"].as_i64(), scaler["spec"]["maxReplicas"].as_i64()),
        (Some(2), Some(5))
    );
    assert_eq!(scaler["spec"]["scaleTargetRef"]["name"], name.as_str());
    fixture.plane.patch("apps/v1/Deployment", &home, &name, json!({"spec": {"replicas": 4}})).await;
    fixture.configure("cart", change("green")).await;
    assert_eq!(fixture.workload("four are green", &deployment, scaled("green", 4)).await, 4);
    fixture.configure("cart", json!({"scaling": null})).await;
    fixture.plane.gone("autoscaling/v2/HorizontalPodAutoscaler", &home, &name).await;
    assert_eq!(fixture.live(&deployment, "Deployment").await["spec"]["replicas"], 4);
}
