//! Host names belong to one organization, and to one of its Endpoints, at a time.

use kantor_api::{DataPlane, Endpoint, HostnameClaim, Organization, Release};
use kantor_testbed::proxy::{Action, Fault, Match, Proxy, Record, Verb};
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::{Value, json};

use super::support::{EndpointFixture, HTTP_ROUTE, OF_CART, name, open, template};
use crate::{
    acme::{object, plane_ready, wait_plane_condition},
    deployment::support::{IMAGE, item, labelled},
    observing::{looks, until_looked_at},
    release::neighbours::{home_of_mallory, mallory, mallory_says, release_of_mallory},
    support::{OperatorFixture, PATIENCE, condition, is_ready, operator_with},
};

fn with_hosts(mut template: Value, hosts: &[&str]) -> Value {
    template["spec"]["hostnames"] = json!(hosts);
    template
}

fn public(name: &str, base: &str, hosts: &[&str]) -> Value {
    with_hosts(template(name, base, json!({"public": open(json!([]))})), hosts)
}

/// All hosts of an Endpoint's routes.
async fn hosts(fixture: &EndpointFixture, endpoint: &Endpoint) -> Vec<String> {
    let mut hosts: Vec<String> = fixture
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
    let fixture = EndpointFixture::open().await;
    fixture.deploy(json!([public("blue", "/blue", &["Shop.Acme.Example."])])).await;
    fixture.ready(&name("blue")).await;
    let both = json!([
        public("blue", "/blue", &["shop.acme.example"]),
        public("green", "/green", &["shop.acme.example", "green.acme.example"]),
    ]);
    fixture.edit(both).await;
    let green = fixture
        .until("green waits for the host", &name("green"), |found| {
            let status = found.status.as_ref()?;
            (is_ready(found) && status.withheld_hostnames == ["shop.acme.example"]).then(|| found.clone())
        })
        .await;
    assert_eq!(hosts(&fixture, &green).await, ["dev.apis.example.com", "green.acme.example"]);
    // Blue lets go.
    fixture
        .edit(json!([
            public("blue", "/blue", &[]),
            public("green", "/green", &["shop.acme.example", "green.acme.example"]),
        ]))
        .await;
    fixture
        .until("green has the host", &name("green"), |found| {
            (is_ready(found) && found.status.as_ref()?.withheld_hostnames.is_empty()).then_some(())
        })
        .await;
    assert_eq!(
        hosts(&fixture, &green).await,
        ["dev.apis.example.com", "green.acme.example", "shop.acme.example"]
    );
    let holder = fixture.claims().await.into_iter().find(|(host, _)| host == "shop.acme.example").unwrap().1;
    assert_eq!(holder, name("green"));

    // A transfer: the new route is there before the old one loses the host.
    fixture
        .edit(json!([
            public("blue", "/blue", &["shop.acme.example"]),
            public("green", "/green", &["shop.acme.example", "green.acme.example"]),
        ]))
        .await;
    let blue = fixture
        .until("blue waits", &name("blue"), |found| {
            (found.status.as_ref()?.withheld_hostnames == ["shop.acme.example"]).then(|| found.clone())
        })
        .await;
    let to = json!({"metadata": {"annotations": {"openchoreo.dev/transfer-to": format!("acme/{}", name("blue"))}}});
    fixture.deployment.control.patch::<HostnameClaim>("shop.acme.example", to).await;
    fixture
        .until("blue has the host", &name("blue"), |found| {
            (is_ready(found) && found.status.as_ref()?.withheld_hostnames.is_empty()).then_some(())
        })
        .await;
    fixture
        .until("green waits again", &name("green"), |found| {
            (found.status.as_ref()?.withheld_hostnames == ["shop.acme.example"]).then_some(())
        })
        .await;
    fixture
        .deployment
        .control
        .until("the claim is settled", "shop.acme.example", |claim: Option<&HostnameClaim>| {
            let claim = claim?;
            let settled = claim.annotations().is_empty() && claim.spec.holder.name == name("blue");
            settled.then_some(())
        })
        .await;
    assert_eq!(hosts(&fixture, &blue).await, ["dev.apis.example.com", "shop.acme.example"]);
    assert_eq!(hosts(&fixture, &green).await, ["dev.apis.example.com", "green.acme.example"]);
    // The holder is deleted with its Deployment's template; the other one gets the host.
    fixture.edit(json!([public("green", "/green", &["shop.acme.example", "green.acme.example"])])).await;
    fixture
        .until("green has it again", &name("green"), |found| {
            (is_ready(found) && found.status.as_ref()?.withheld_hostnames.is_empty()).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_handed_to_who_answers_and_the_old_route_leads_nobody_any_more_before_it_goes() {
    let fixture = EndpointFixture::open().await;
    let with_green = |green: &[&str]| {
        json!([public("blue", "/blue", &["shop.acme.example"]), public("green", "/green", green)])
    };
    fixture.deploy(with_green(&[])).await;
    let (blue, green) = (fixture.ready(&name("blue")).await, fixture.ready(&name("green")).await);
    fixture.edit(with_green(&["shop.acme.example"])).await;
    fixture
        .until("green waits for the host", &name("green"), |found| {
            (found.status.as_ref()?.withheld_hostnames == ["shop.acme.example"]).then_some(())
        })
        .await;
    let workload = item(&fixture.deployment.ready("cart").await, "Deployment").clone();
    let scale = async |replicas: u8| {
        let spec = json!({"spec": {"replicas": replicas}});
        fixture.deployment.plane.patch("apps/v1/Deployment", &workload.namespace, &workload.name, spec).await;
    };
    scale(0).await;
    fixture.wait_condition(&name("green"), "False", "BackendNotReady").await;
    fixture.deployment.quiet().await;

    let mark = fixture.deployment.plane.proxy.mark();
    let before = looks(&fixture.deployment.control, "endpoint").await;
    let to = json!({"metadata": {"annotations": {"openchoreo.dev/transfer-to": format!("acme/{}", name("green"))}}});
    fixture.deployment.control.patch::<HostnameClaim>("shop.acme.example", to).await;
    until_looked_at(&fixture.deployment.control, "endpoint", before).await;
    fixture.deployment.quiet().await;
    assert!(
        fixture.deployment.plane.proxy.writes_since(mark).is_empty(),
        "a host for somebody who does not answer"
    );
    scale(1).await;
    fixture
        .until("blue waits for the host", &name("blue"), |found| {
            (is_ready(found) && found.status.as_ref()?.withheld_hostnames == ["shop.acme.example"])
                .then_some(())
        })
        .await;
    // What green's route became, blue's asks for what no request has, and blue's goes: in this order, and each once.
    let writes =
        fixture.deployment.plane.proxy.writes_since(mark).resource("httproutes").filter(Record::committed);
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
    assert_eq!(hosts(&fixture, &blue).await, ["dev.apis.example.com"]);
    assert_eq!(hosts(&fixture, &green).await, ["dev.apis.example.com", "shop.acme.example"]);
}

/// An Endpoint of organization `globex`, made by hand, so that it takes no second fixture; returns its UID.
async fn somebody(control: &OperatorFixture) -> String {
    control.create(&Organization::new("globex", kantor_api::organization::OrganizationSpec {})).await;
    control
        .until("globex is ready", "globex", |o: Option<&Organization>| o.filter(|o| is_ready(*o)).map(|_| ()))
        .await;
    let mut theirs: Value = object(
        "Endpoint",
        "theirs",
        json!({"type": "HTTP", "networkVisibilities": {},
        "backendRef": {"type": "componentRef", "componentRef": {"port": 1}}}),
    );
    theirs["metadata"]["namespace"] = json!("globex");
    control.create::<Endpoint>(&serde_json::from_value(theirs).unwrap()).await.uid().unwrap()
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
async fn taken_away(control: &OperatorFixture, uid: &str, host: &str) -> HostnameClaim {
    control.delete::<HostnameClaim>(host).await;
    control.create(&claimed_by(uid, host)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_takes_the_place_of_one_that_is_let_go_stays() {
    let fixture = EndpointFixture::open().await;
    let control = &fixture.deployment.control;
    let uid = somebody(control).await;
    fixture.deploy(json!([public("api", "/v1", &["free.example"])])).await;
    fixture.ready(&name("api")).await;
    let deletions = Match::new().verb(Verb::Delete).resource("hostnameclaims").name("free.example");
    let held = control.proxy.fault(Fault::when(deletions).then(Action::HoldBefore));
    let mark = control.proxy.mark();
    fixture.edit(json!([public("api", "/v1", &[])])).await;
    held.await_hit(PATIENCE).await.unwrap();
    let theirs = taken_away(control, &uid, "free.example").await;
    held.release();
    let is_over = |record: &Record| {
        record.verb() == Verb::Delete && record.name() == "free.example" && record.is_over()
    };
    let deletion = control.proxy.await_request_since(mark, is_over, PATIENCE).await.unwrap();
    assert_eq!(deletion.code(), Some(409), "{deletion}");
    held.remove();
    fixture.ready(&name("api")).await;
    let found: HostnameClaim = control.wait_exists("free.example").await;
    assert_eq!((found.uid(), &found.spec.holder), (theirs.uid(), &theirs.spec.holder));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_served_only_if_the_api_server_still_says_whose_it_is() {
    let mut fixture = EndpointFixture::open().await;
    let uid = somebody(&fixture.deployment.control).await;
    // Killed when the claim has been made, and before any route has the host.
    let creations = Match::new().verb(Verb::Create).resource("hostnameclaims").name("one.example");
    let held = fixture.deployment.control.proxy.fault(Fault::when(creations).then(Action::HoldAfter));
    let templates = json!([public("api", "/v1", &["one.example"])]);
    fixture.deployment.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": templates})).await;
    fixture.deployment.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    held.await_hit(PATIENCE).await.unwrap();
    fixture.deployment.control.operator.kill().unwrap();
    fixture.deployment.control.operator.ended().await.unwrap();
    held.remove();
    // The next one finds it in its list, and somebody else takes it from there.
    let reads = Match::new().verb(Verb::Get).resource("hostnameclaims").name("one.example");
    let held = fixture.deployment.control.proxy.fault(Fault::when(reads).then(Action::HoldBefore));
    let mark = fixture.deployment.plane.proxy.mark();
    crate::release::support::start_operator(&mut fixture.deployment.control, &[]).await;
    held.await_hit(PATIENCE).await.unwrap();
    taken_away(&fixture.deployment.control, &uid, "one.example").await;
    held.remove();
    fixture.wait_condition(&name("api"), "False", "HostnameConflict").await;
    let served = fixture.deployment.plane.proxy.writes_since(mark).resource("httproutes");
    assert!(!served.iter().any(|write| write.body.contains("one.example")), "{served}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_organization_is_refused_with_all_others_and_tells_nothing_of_it() {
    let fixture = EndpointFixture::open().await;
    let control = &fixture.deployment.control;
    let uid = somebody(control).await;
    for host in ["taken.example", "*.wild.example"] {
        control.create(&claimed_by(&uid, host)).await;
    }
    fixture.deploy(json!([public("api", "/v1", &["free.example"])])).await;
    let endpoint = fixture.ready(&name("api")).await;
    for host in ["taken.example", "a.wild.example"] {
        fixture.edit(json!([public("api", "/v1", &["free.example", host])])).await;
        let message = fixture.wait_condition(&name("api"), "False", "HostnameConflict").await;
        assert!(
            message.contains(host) && !message.contains("globex") && !message.contains("theirs"),
            "{message}"
        );
        assert_eq!(fixture.names(HTTP_ROUTE, &endpoint).await, [""; 0]);
        // Nobody gets what it holds meanwhile.
        assert!(fixture.claims().await.contains(&("free.example".to_owned(), name("api"))));
        fixture.edit(json!([public("api", "/v1", &["free.example"])])).await;
        fixture.ready(&name("api")).await;
    }
    // It goes on by itself when the other one lets go.
    fixture.edit(json!([public("api", "/v1", &["free.example", "taken.example"])])).await;
    fixture.wait_condition(&name("api"), "False", "HostnameConflict").await;
    let claims: Api<HostnameClaim> = Api::all(control.client.clone());
    claims.delete("taken.example", &DeleteParams::default()).await.unwrap();
    fixture.ready(&name("api")).await;
    assert_eq!(hosts(&fixture, &endpoint).await, ["dev.apis.example.com", "free.example", "taken.example"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_holder_vanished_without_a_clean_up_is_let_go() {
    let fixture = EndpointFixture::open().await;
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
    fixture.deployment.plane.create("v1/Namespace", "", json!({"metadata": {"name": "old"}})).await;
    let labels = json!({"openchoreo.dev/owner-uid": with_a_route});
    let route =
        json!({"metadata": {"name": "old", "labels": labels}, "spec": {"hostnames": ["left.example"]}});
    fixture.deployment.plane.create(HTTP_ROUTE, "old", route).await;
    fixture.deployment.control.create(&claim("00000000-0000-0000-0000-000000000000")).await;
    fixture.deployment.control.until_gone::<HostnameClaim>("left.example").await;
    // While a plane cannot be asked, it is not: a route of it may be there.
    fixture.deployment.plane.proxy.refuse(true);
    wait_plane_condition(&fixture.deployment.control, "plane", "Unknown", "DataPlaneUnreachable").await;
    let waits_for = async |words: &str| {
        fixture
            .deployment
            .control
            .until("it says what it waits for", "left.example", |claim: Option<&HostnameClaim>| {
                let ready = kantor_api::conditions::get(&claim?.status.as_ref()?.conditions, "Ready")?;
                (ready.reason == "HolderGone" && ready.message.contains(words)).then_some(())
            })
            .await;
    };
    fixture.deployment.control.create(&claim("00000000-0000-0000-0000-000000000000")).await;
    waits_for("cannot be asked").await;
    fixture.deployment.plane.proxy.refuse(false);
    plane_ready(&fixture.deployment.control, "plane").await;
    let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
    fixture.deployment.control.patch::<HostnameClaim>("left.example", touch).await;
    fixture.deployment.control.until_gone::<HostnameClaim>("left.example").await;
    // While a route of it is left somewhere, it is not either.
    fixture.deployment.control.create(&claim(with_a_route)).await;
    waits_for("still has its routes").await;
}

/// Two operators at once, as when a leader does not know yet that it is none.
#[tokio::test(flavor = "multi_thread")]
async fn two_operators_that_race_for_hosts_leave_each_with_one_holder() {
    let fixture = EndpointFixture::open().await;
    let control = &fixture.deployment.control;
    // Behind a proxy of its own, which tells what it did.
    let beside = Proxy::start(&control.control_plane).unwrap();
    let second = operator_with(&control.control_plane, &beside, &[]).await;
    second.ready().await.unwrap();
    fixture.deploy(json!([template("first", "/first", Value::Null)])).await;
    fixture.ready(&name("first")).await;
    let mark = beside.mark();
    // Of the first one, one claim is held back until the second one has made one.
    let is_claim = |record: &Record| record.verb() == Verb::Create && record.resource() == "hostnameclaims";
    let creations = Match::new().verb(Verb::Create).resource("hostnameclaims");
    let held = control.proxy.fault(Fault::when(creations).then(Action::HoldBefore));
    let names: Vec<String> = (0..6).map(|i| format!("racer-{i}")).collect();
    for (i, racer) in names.iter().enumerate() {
        let endpoint: Endpoint = labelled(
            "Endpoint",
            racer,
            &OF_CART,
            json!({"type": "HTTP", "hostnames": ["one.example", "two.example"],
            "backendRef": {"type": "componentRef", "basePath": format!("/r{i}"), "componentRef": {"port": 8080}}}),
        );
        control.create::<Endpoint>(&endpoint).await;
    }
    held.await_hit(PATIENCE).await.unwrap();
    let made = |record: &Record| is_claim(record) && record.committed();
    beside.await_request_since(mark, made, PATIENCE).await.unwrap();
    held.release();
    held.remove();
    for racer in &names {
        fixture
            .until("it is ready or waits", racer, |found| {
                let said = condition(found, "Ready")?;
                (said.0 == "True").then_some(())
            })
            .await;
    }
    let claims = fixture.claims().await;
    for host in ["one.example", "two.example"] {
        let holder = &claims.iter().find(|(of, _)| of == host).unwrap().1;
        for racer in &names {
            let endpoint = fixture.until("it is there", racer, |found| Some(found.clone())).await;
            let serves = hosts(&fixture, &endpoint).await.contains(&host.to_owned());
            assert_eq!(serves, racer == holder, "{host}: {racer}, held by {holder}");
        }
    }
    drop(second);
}

/// Routes are opened to Releases by the platform team only, and then claim their hosts as Endpoints do.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_of_a_release_gets_no_host_that_another_organization_has() {
    let fixture = EndpointFixture::open().await;
    let (control, plane) = (&fixture.deployment.control, &fixture.deployment.plane);
    fixture.deploy(json!([public("api", "/v1", &["shop.brand.example"])])).await;
    fixture.ready(&name("api")).await;
    mallory(control, &plane.kubeconfig.to_yaml(), Value::Null).await;
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
    control.create(&release_of_mallory("phishing", &[theirs])).await;
    let (_, message) = mallory_says(control, "phishing", "PolicyViolation").await;
    assert!(message.contains("HTTPRoute login") && message.contains("allowedKinds"), "{message}");
    // With it, none for a host of another organization, nor for all of them, nor for those of everybody.
    let policy = json!({"spec": {"releasePolicy": {"allowedKinds": ["*", "*.gateway.networking.k8s.io"]}}});
    control.patch::<DataPlane>("mallory/plane", policy).await;
    let (_, message) = mallory_says(control, "phishing", "HostnameConflict").await;
    assert!(message.contains("shop.brand.example") && !message.contains("acme"), "{message}");
    for host in [None, Some("dev.apis.example.com"), Some("*.example.com")] {
        let spec = json!({"spec": {"resources": [{"id": "0", "object": route("login", host)}]}});
        control.patch::<Release>("mallory/phishing", spec).await;
        mallory_says(control, "phishing", "PolicyViolation").await;
    }
    let spec =
        json!({"spec": {"resources": [{"id": "0", "object": route("login", Some("*.brand.example"))}]}});
    control.patch::<Release>("mallory/phishing", spec).await;
    mallory_says(control, "phishing", "HostnameConflict").await;
    assert_eq!(routes().await, [""; 0]);
    let landed = plane.proxy.writes_since(mark).resource("httproutes").filter(Record::committed);
    assert!(landed.is_empty(), "{landed}");

    // A host that nobody has becomes its own, until it lets go.
    let spec =
        json!({"spec": {"resources": [{"id": "0", "object": route("login", Some("own.brand2.example"))}]}});
    control.patch::<Release>("mallory/phishing", spec).await;
    control.until_ready::<Release>("mallory/phishing").await;
    assert_eq!(routes().await, ["login"]);
    let holder = |claims: Vec<(String, String)>, host: &str| claims.into_iter().find(|(of, _)| of == host);
    assert_eq!(holder(fixture.claims().await, "own.brand2.example").unwrap().1, "phishing");
    fixture.edit(json!([public("api", "/v1", &["shop.brand.example", "own.brand2.example"])])).await;
    let message = fixture.wait_condition(&name("api"), "False", "HostnameConflict").await;
    assert!(message.contains("own.brand2.example") && !message.contains("mallory"), "{message}");
    // Another name is claimed before the old one is let go; then the other organization gets that.
    let spec =
        json!({"spec": {"resources": [{"id": "0", "object": route("login", Some("new.brand2.example"))}]}});
    control.patch::<Release>("mallory/phishing", spec).await;
    control.until_ready::<Release>("mallory/phishing").await;
    let api = fixture.ready(&name("api")).await;
    assert_eq!(
        hosts(&fixture, &api).await,
        ["dev.apis.example.com", "own.brand2.example", "shop.brand.example"]
    );
    // What it has goes with it.
    control.delete::<Release>("mallory/phishing").await;
    control.until_gone::<Release>("mallory/phishing").await;
    assert_eq!(routes().await, [""; 0]);
    assert_eq!(holder(fixture.claims().await, "new.brand2.example"), None);
}
