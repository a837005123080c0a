//! Host names belong to one organization, and to one of its Endpoints, at a time.

use kantor_api::{DataPlane, Endpoint, HostnameClaim, Organization, Release};
use kantor_testbed::proxy::{Action, Fault, Match, Proxy, Record, Verb};
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::{Value, json};

use super::support::{HTTP_ROUTE, Mall, OF_CART, name, open, template};
use crate::{
    acme::{object, plane_ready, plane_says},
    deployment::support::{IMAGE, item, labelled},
    observing::{looks, until_looked_at},
    release::neighbours::{home_of_mallory, mallory, mallory_says, release_of_mallory},
    support::{PATIENCE, Stage, condition, is_ready, operator_with},
};

fn with_hosts(mut template: Value, hosts: &[&str]) -> Value {
    template["spec"]["hostnames"] = json!(hosts);
    template
}

fn public(name: &str, base: &str, hosts: &[&str]) -> Value {
    with_hosts(template(name, base, json!({"public": open(json!([]))})), hosts)
}

/// All hosts of an Endpoint's routes.
async fn hosts(mall: &Mall, endpoint: &Endpoint) -> Vec<String> {
    let mut hosts: Vec<String> = mall
        .objects(HTTP_ROUTE, endpoint)
        .await
        .iter()
        .flat_map(|route| route["spec"]["hostnames"].as_array().unwrap().clone())
        .map(|host| host.as_str().unwrap().to_owned())
        .collect();
    hosts.sort();
    hosts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_withheld_from_a_second_endpoint_and_handed_over_by_itself() {
    let mall = Mall::open().await;
    mall.deploy(json!([public("blue", "/blue", &["Shop.Acme.Example."])])).await;
    mall.ready(&name("blue")).await;
    let both = json!([
        public("blue", "/blue", &["shop.acme.example"]),
        public("green", "/green", &["shop.acme.example", "green.acme.example"]),
    ]);
    mall.edit(both).await;
    let green = mall
        .until("green waits for the host", &name("green"), |found| {
            let status = found.status.as_ref()?;
            (is_ready(found) && status.withheld_hostnames == ["shop.acme.example"]).then(|| found.clone())
        })
        .await;
    assert_eq!(hosts(&mall, &green).await, ["dev.apis.example.com", "green.acme.example"]);
    // Blue lets go.
    mall.edit(json!([
        public("blue", "/blue", &[]),
        public("green", "/green", &["shop.acme.example", "green.acme.example"]),
    ]))
    .await;
    mall.until("green has the host", &name("green"), |found| {
        (is_ready(found) && found.status.as_ref()?.withheld_hostnames.is_empty()).then_some(())
    })
    .await;
    assert_eq!(
        hosts(&mall, &green).await,
        ["dev.apis.example.com", "green.acme.example", "shop.acme.example"]
    );
    let holder = mall.claims().await.into_iter().find(|(host, _)| host == "shop.acme.example").unwrap().1;
    assert_eq!(holder, name("green"));

    // A transfer: the new route is there before the old one loses the host.
    mall.edit(json!([
        public("blue", "/blue", &["shop.acme.example"]),
        public("green", "/green", &["shop.acme.example", "green.acme.example"]),
    ]))
    .await;
    let blue = mall
        .until("blue waits", &name("blue"), |found| {
            (found.status.as_ref()?.withheld_hostnames == ["shop.acme.example"]).then(|| found.clone())
        })
        .await;
    let to = json!({"metadata": {"annotations": {"openchoreo.dev/transfer-to": format!("acme/{}", name("blue"))}}});
    mall.shop.stage.patch::<HostnameClaim>("shop.acme.example", to).await;
    mall.until("blue has the host", &name("blue"), |found| {
        (is_ready(found) && found.status.as_ref()?.withheld_hostnames.is_empty()).then_some(())
    })
    .await;
    mall.until("green waits again", &name("green"), |found| {
        (found.status.as_ref()?.withheld_hostnames == ["shop.acme.example"]).then_some(())
    })
    .await;
    mall.shop
        .stage
        .until("the claim is settled", "shop.acme.example", |claim: Option<&HostnameClaim>| {
            let claim = claim?;
            let settled = claim.annotations().is_empty() && claim.spec.holder.name == name("blue");
            settled.then_some(())
        })
        .await;
    assert_eq!(hosts(&mall, &blue).await, ["dev.apis.example.com", "shop.acme.example"]);
    assert_eq!(hosts(&mall, &green).await, ["dev.apis.example.com", "green.acme.example"]);
    // The holder is deleted with its Deployment's template; the other one gets the host.
    mall.edit(json!([public("green", "/green", &["shop.acme.example", "green.acme.example"])])).await;
    mall.until("green has it again", &name("green"), |found| {
        (is_ready(found) && found.status.as_ref()?.withheld_hostnames.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_handed_to_who_answers_and_the_old_route_leads_nobody_any_more_before_it_goes() {
    let mall = Mall::open().await;
    let with_green = |green: &[&str]| {
        json!([public("blue", "/blue", &["shop.acme.example"]), public("green", "/green", green)])
    };
    mall.deploy(with_green(&[])).await;
    let (blue, green) = (mall.ready(&name("blue")).await, mall.ready(&name("green")).await);
    mall.edit(with_green(&["shop.acme.example"])).await;
    mall.until("green waits for the host", &name("green"), |found| {
        (found.status.as_ref()?.withheld_hostnames == ["shop.acme.example"]).then_some(())
    })
    .await;
    let workload = item(&mall.shop.ready("cart").await, "Deployment").clone();
    let scale = async |replicas: u8| {
        let spec = json!({"spec": {"replicas": replicas}});
        mall.shop.plane.patch("apps/v1/Deployment", &workload.namespace, &workload.name, spec).await;
    };
    scale(0).await;
    mall.says(&name("green"), "False", "BackendNotReady").await;
    mall.shop.quiet().await;

    let mark = mall.shop.plane.proxy.mark();
    let before = looks(&mall.shop.stage, "endpoint").await;
    let to = json!({"metadata": {"annotations": {"openchoreo.dev/transfer-to": format!("acme/{}", name("green"))}}});
    mall.shop.stage.patch::<HostnameClaim>("shop.acme.example", to).await;
    until_looked_at(&mall.shop.stage, "endpoint", before).await;
    mall.shop.quiet().await;
    assert!(mall.shop.plane.proxy.writes_since(mark).is_empty(), "a host for somebody who does not answer");
    scale(1).await;
    mall.until("blue waits for the host", &name("blue"), |found| {
        (is_ready(found) && found.status.as_ref()?.withheld_hostnames == ["shop.acme.example"]).then_some(())
    })
    .await;
    // What green's route became, blue's asks for what no request has, and blue's goes: in this order, and each once.
    let writes = mall.shop.plane.proxy.writes_since(mark).resource("httproutes").filter(Record::committed);
    let owned_by = |write: &Record, endpoint: &Endpoint| write.body.contains(&endpoint.uid().unwrap());
    let told: Vec<&str> = writes
        .iter()
        .map(|write| match write.verb() {
            Verb::Delete => "gone",
            _ if owned_by(write, &green) => "green",
            _ if owned_by(write, &blue) && write.body.contains("x-kantor-retired") => "retired",
            _ => "something else",
        })
        .collect();
    assert_eq!(told, ["green", "retired", "gone"], "{writes}");
    assert_eq!(hosts(&mall, &blue).await, ["dev.apis.example.com"]);
    assert_eq!(hosts(&mall, &green).await, ["dev.apis.example.com", "shop.acme.example"]);
}

/// An Endpoint of organization `globex`, made by hand, so that it takes no second shop; tells its UID.
async fn somebody(stage: &Stage) -> String {
    stage.create(&Organization::new("globex", kantor_api::organization::OrganizationSpec {})).await;
    stage
        .until("globex is ready", "globex", |o: Option<&Organization>| o.filter(|o| is_ready(*o)).map(|_| ()))
        .await;
    let mut theirs: Value = object(
        "Endpoint",
        "theirs",
        json!({"type": "HTTP", "networkVisibilities": {},
        "backendRef": {"type": "componentRef", "componentRef": {"port": 1}}}),
    );
    theirs["metadata"]["namespace"] = json!("globex");
    stage.create::<Endpoint>(&serde_json::from_value(theirs).unwrap()).await.uid().unwrap()
}

/// A claim of that Endpoint.
fn claimed_by(uid: &str, host: &str) -> HostnameClaim {
    serde_json::from_value(json!({
        "apiVersion": "openchoreo.dev/v1alpha1", "kind": "HostnameClaim",
        "metadata": {"name": host.replace('*', "any")},
        "spec": {"hostname": host, "organization": "globex",
            "holder": {"namespace": "globex", "name": "theirs", "uid": uid}},
    }))
    .unwrap()
}

/// Deletes a claim and makes one of the other organization in its place; returns that one.
async fn taken_away(stage: &Stage, uid: &str, host: &str) -> HostnameClaim {
    stage.delete::<HostnameClaim>(host).await;
    stage.create(&claimed_by(uid, host)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_takes_the_place_of_one_that_is_let_go_stays() {
    let mall = Mall::open().await;
    let stage = &mall.shop.stage;
    let uid = somebody(stage).await;
    mall.deploy(json!([public("api", "/v1", &["free.example"])])).await;
    mall.ready(&name("api")).await;
    let deletions = Match::new().verb(Verb::Delete).resource("hostnameclaims").name("free.example");
    let held = stage.proxy.fault(Fault::when(deletions).then(Action::HoldBefore));
    let mark = stage.proxy.mark();
    mall.edit(json!([public("api", "/v1", &[])])).await;
    held.await_hit(PATIENCE).await.unwrap();
    let theirs = taken_away(stage, &uid, "free.example").await;
    held.release();
    let is_over = |record: &Record| {
        record.verb() == Verb::Delete && record.name() == "free.example" && record.is_over()
    };
    let deletion = stage.proxy.await_request_since(mark, is_over, PATIENCE).await.unwrap();
    assert_eq!(deletion.code(), Some(409), "{deletion}");
    held.remove();
    mall.ready(&name("api")).await;
    let found: HostnameClaim = stage.there("free.example").await;
    assert_eq!((found.uid(), &found.spec.holder), (theirs.uid(), &theirs.spec.holder));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_served_only_if_the_api_server_still_says_whose_it_is() {
    let mut mall = Mall::open().await;
    let uid = somebody(&mall.shop.stage).await;
    // Killed when the claim has been made, and before any route has the host.
    let creations = Match::new().verb(Verb::Create).resource("hostnameclaims").name("one.example");
    let held = mall.shop.stage.proxy.fault(Fault::when(creations).then(Action::HoldAfter));
    let templates = json!([public("api", "/v1", &["one.example"])]);
    mall.shop.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": templates})).await;
    mall.shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    held.await_hit(PATIENCE).await.unwrap();
    mall.shop.stage.operator.kill().unwrap();
    mall.shop.stage.operator.ended().await.unwrap();
    held.remove();
    // The next one finds it in its list, and somebody else takes it from there.
    let reads = Match::new().verb(Verb::Get).resource("hostnameclaims").name("one.example");
    let held = mall.shop.stage.proxy.fault(Fault::when(reads).then(Action::HoldBefore));
    let mark = mall.shop.plane.proxy.mark();
    crate::release::support::start_operator(&mut mall.shop.stage, &[]).await;
    held.await_hit(PATIENCE).await.unwrap();
    taken_away(&mall.shop.stage, &uid, "one.example").await;
    held.remove();
    mall.says(&name("api"), "False", "HostnameConflict").await;
    let served = mall.shop.plane.proxy.writes_since(mark).resource("httproutes");
    assert!(!served.iter().any(|write| write.body.contains("one.example")), "{served}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_organization_is_refused_with_all_others_and_tells_nothing_of_it() {
    let mall = Mall::open().await;
    let stage = &mall.shop.stage;
    let uid = somebody(stage).await;
    for host in ["taken.example", "*.wild.example"] {
        stage.create(&claimed_by(&uid, host)).await;
    }
    mall.deploy(json!([public("api", "/v1", &["free.example"])])).await;
    let endpoint = mall.ready(&name("api")).await;
    for host in ["taken.example", "a.wild.example"] {
        mall.edit(json!([public("api", "/v1", &["free.example", host])])).await;
        let message = mall.says(&name("api"), "False", "HostnameConflict").await;
        assert!(
            message.contains(host) && !message.contains("globex") && !message.contains("theirs"),
            "{message}"
        );
        assert_eq!(mall.names(HTTP_ROUTE, &endpoint).await, [""; 0]);
        // Nobody gets what it holds meanwhile.
        assert!(mall.claims().await.contains(&("free.example".to_owned(), name("api"))));
        mall.edit(json!([public("api", "/v1", &["free.example"])])).await;
        mall.ready(&name("api")).await;
    }
    // It goes on by itself when the other one lets go.
    mall.edit(json!([public("api", "/v1", &["free.example", "taken.example"])])).await;
    mall.says(&name("api"), "False", "HostnameConflict").await;
    let claims: Api<HostnameClaim> = Api::all(stage.client.clone());
    claims.delete("taken.example", &DeleteParams::default()).await.unwrap();
    mall.ready(&name("api")).await;
    assert_eq!(hosts(&mall, &endpoint).await, ["dev.apis.example.com", "free.example", "taken.example"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_holder_vanished_without_a_clean_up_is_let_go() {
    let mall = Mall::open().await;
    let claim = |uid: &str| -> HostnameClaim {
        serde_json::from_value(json!({
            "apiVersion": "openchoreo.dev/v1alpha1", "kind": "HostnameClaim", "metadata": {"name": "left.example"},
            "spec": {"hostname": "left.example", "organization": "globex",
                "holder": {"namespace": "globex", "name": "nobody", "uid": uid}},
        }))
        .unwrap()
    };
    // Before anybody asks for routes: what a list tells is known from then on.
    let with_a_route = "11111111-1111-1111-1111-111111111111";
    mall.shop.plane.create("v1/Namespace", "", json!({"metadata": {"name": "old"}})).await;
    let labels = json!({"openchoreo.dev/owner-uid": with_a_route});
    let route =
        json!({"metadata": {"name": "old", "labels": labels}, "spec": {"hostnames": ["left.example"]}});
    mall.shop.plane.create(HTTP_ROUTE, "old", route).await;
    mall.shop.stage.create(&claim("00000000-0000-0000-0000-000000000000")).await;
    mall.shop.stage.until_gone::<HostnameClaim>("left.example").await;
    // While a plane cannot be asked, it is not: a route of it may be there.
    mall.shop.plane.proxy.refuse(true);
    plane_says(&mall.shop.stage, "plane", "Unknown", "DataPlaneUnreachable").await;
    let waits_for = async |words: &str| {
        mall.shop
            .stage
            .until("it says what it waits for", "left.example", |claim: Option<&HostnameClaim>| {
                let ready = kantor_api::conditions::get(&claim?.status.as_ref()?.conditions, "Ready")?;
                (ready.reason == "HolderGone" && ready.message.contains(words)).then_some(())
            })
            .await;
    };
    mall.shop.stage.create(&claim("00000000-0000-0000-0000-000000000000")).await;
    waits_for("cannot be asked").await;
    mall.shop.plane.proxy.refuse(false);
    plane_ready(&mall.shop.stage, "plane").await;
    let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
    mall.shop.stage.patch::<HostnameClaim>("left.example", touch).await;
    mall.shop.stage.until_gone::<HostnameClaim>("left.example").await;
    // While a route of it is left somewhere, it is not either.
    mall.shop.stage.create(&claim(with_a_route)).await;
    waits_for("still has its routes").await;
}

/// Two operators at once, as when a leader does not know yet that it is none.
#[tokio::test(flavor = "multi_thread")]
async fn two_operators_that_race_for_hosts_leave_each_with_one_holder() {
    let mall = Mall::open().await;
    let stage = &mall.shop.stage;
    // Behind a proxy of its own, which tells what it did.
    let beside = Proxy::start(&stage.control_plane).unwrap();
    let second = operator_with(&stage.control_plane, &beside, &[]).await;
    second.ready().await.unwrap();
    mall.deploy(json!([template("first", "/first", Value::Null)])).await;
    mall.ready(&name("first")).await;
    let mark = beside.mark();
    // Of the first one, one claim is held back until the second one has made one.
    let is_claim = |record: &Record| record.verb() == Verb::Create && record.resource() == "hostnameclaims";
    let creations = Match::new().verb(Verb::Create).resource("hostnameclaims");
    let held = stage.proxy.fault(Fault::when(creations).then(Action::HoldBefore));
    let names: Vec<String> = (0..6).map(|i| format!("racer-{i}")).collect();
    for (i, racer) in names.iter().enumerate() {
        let endpoint: Endpoint = labelled(
            "Endpoint",
            racer,
            &OF_CART,
            json!({"type": "HTTP", "hostnames": ["one.example", "two.example"],
            "backendRef": {"type": "componentRef", "basePath": format!("/r{i}"), "componentRef": {"port": 8080}}}),
        );
        stage.create::<Endpoint>(&endpoint).await;
    }
    held.await_hit(PATIENCE).await.unwrap();
    let made = |record: &Record| is_claim(record) && record.committed();
    beside.await_request_since(mark, made, PATIENCE).await.unwrap();
    held.release();
    held.remove();
    for racer in &names {
        mall.until("it is ready or waits", racer, |found| {
            let said = condition(found, "Ready")?;
            (said.0 == "True").then_some(())
        })
        .await;
    }
    let claims = mall.claims().await;
    for host in ["one.example", "two.example"] {
        let holder = &claims.iter().find(|(of, _)| of == host).unwrap().1;
        for racer in &names {
            let endpoint = mall.until("it is there", racer, |found| Some(found.clone())).await;
            let serves = hosts(&mall, &endpoint).await.contains(&host.to_owned());
            assert_eq!(serves, racer == holder, "{host}: {racer}, held by {holder}");
        }
    }
    drop(second);
}

/// Routes are opened to Releases by the platform team only, and then claim their hosts as Endpoints do.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_of_a_release_gets_no_host_that_another_organization_has() {
    let mall = Mall::open().await;
    let (stage, plane) = (&mall.shop.stage, &mall.shop.plane);
    mall.deploy(json!([public("api", "/v1", &["shop.brand.example"])])).await;
    mall.ready(&name("api")).await;
    mallory(stage, &plane.kubeconfig.to_yaml(), Value::Null).await;
    let home = home_of_mallory();
    let route = |name: &str, host: Option<&str>| {
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": name, "namespace": home},
            "spec": {"parentRefs": [{"name": "gateway-external", "namespace": "openchoreo-data-plane"}],
                "hostnames": host.map(|host| vec![host]),
                "rules": [{"matches": [{"path": {"type": "Exact", "value": "/login"}}],
                    "backendRefs": [{"name": "phishing", "port": 80}]}]}})
    };
    let routes = async || -> Vec<String> {
        let found = plane.api(HTTP_ROUTE, &home).list(&kube::api::ListParams::default()).await.unwrap();
        found.items.iter().map(ResourceExt::name_any).collect()
    };

    // Without leave, no route at all.
    let mark = plane.proxy.mark();
    let theirs = route("login", Some("shop.brand.example"));
    stage.create(&release_of_mallory("phishing", &[theirs])).await;
    let (_, message) = mallory_says(stage, "phishing", "PolicyViolation").await;
    assert!(message.contains("HTTPRoute login") && message.contains("allowedKinds"), "{message}");
    // With it, none for a host of another organization, nor for all of them, nor for those of everybody.
    let policy = json!({"spec": {"releasePolicy": {"allowedKinds": ["*", "*.gateway.networking.k8s.io"]}}});
    stage.patch::<DataPlane>("mallory/plane", policy).await;
    let (_, message) = mallory_says(stage, "phishing", "HostnameConflict").await;
    assert!(message.contains("shop.brand.example") && !message.contains("acme"), "{message}");
    for host in [None, Some("dev.apis.example.com"), Some("*.example.com")] {
        let spec = json!({"spec": {"resources": [{"id": "0", "object": route("login", host)}]}});
        stage.patch::<Release>("mallory/phishing", spec).await;
        mallory_says(stage, "phishing", "PolicyViolation").await;
    }
    let spec =
        json!({"spec": {"resources": [{"id": "0", "object": route("login", Some("*.brand.example"))}]}});
    stage.patch::<Release>("mallory/phishing", spec).await;
    mallory_says(stage, "phishing", "HostnameConflict").await;
    assert_eq!(routes().await, [""; 0]);
    let landed = plane.proxy.writes_since(mark).resource("httproutes").filter(Record::committed);
    assert!(landed.is_empty(), "{landed}");

    // A host that nobody has becomes its own, until it lets go.
    let spec =
        json!({"spec": {"resources": [{"id": "0", "object": route("login", Some("own.brand2.example"))}]}});
    stage.patch::<Release>("mallory/phishing", spec).await;
    stage.until_ready::<Release>("mallory/phishing").await;
    assert_eq!(routes().await, ["login"]);
    let holder = |claims: Vec<(String, String)>, host: &str| claims.into_iter().find(|(of, _)| of == host);
    assert_eq!(holder(mall.claims().await, "own.brand2.example").unwrap().1, "phishing");
    mall.edit(json!([public("api", "/v1", &["shop.brand.example", "own.brand2.example"])])).await;
    let message = mall.says(&name("api"), "False", "HostnameConflict").await;
    assert!(message.contains("own.brand2.example") && !message.contains("mallory"), "{message}");
    // Another name is claimed before the old one is let go; then the other organization gets that.
    let spec =
        json!({"spec": {"resources": [{"id": "0", "object": route("login", Some("new.brand2.example"))}]}});
    stage.patch::<Release>("mallory/phishing", spec).await;
    stage.until_ready::<Release>("mallory/phishing").await;
    let api = mall.ready(&name("api")).await;
    assert_eq!(
        hosts(&mall, &api).await,
        ["dev.apis.example.com", "own.brand2.example", "shop.brand.example"]
    );
    // What it has goes with it.
    stage.delete::<Release>("mallory/phishing").await;
    stage.until_gone::<Release>("mallory/phishing").await;
    assert_eq!(routes().await, [""; 0]);
    assert_eq!(holder(mall.claims().await, "new.brand2.example"), None);
}
