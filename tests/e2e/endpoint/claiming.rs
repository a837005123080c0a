//! Host names belong to one organization, and to one of its Endpoints, at a time.

use kantor_api::{Endpoint, HostnameClaim, Organization};
use kantor_testbed::proxy::{Record, Verb};
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::{Value, json};

use super::support::{HTTP_ROUTE, Mall, OF_CART, name, open, template};
use crate::{
    acme::object,
    deployment::support::{item, labelled},
    observing::{looks, until_looked_at},
    support::{condition, is_ready},
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

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_organization_is_refused_with_all_others_and_tells_nothing_of_it() {
    let mall = Mall::open().await;
    let stage = &mall.shop.stage;
    stage.create(&Organization::new("globex", kantor_api::organization::OrganizationSpec {})).await;
    stage
        .until("globex is ready", "globex", |o: Option<&Organization>| o.filter(|o| is_ready(*o)).map(|_| ()))
        .await;
    // What somebody else has: made by hand here, so that it takes no second shop. Its holder exists.
    let mut theirs: Value = object(
        "Endpoint",
        "theirs",
        json!({"type": "HTTP", "networkVisibilities": {},
        "backendRef": {"type": "componentRef", "componentRef": {"port": 1}}}),
    );
    theirs["metadata"]["namespace"] = json!("globex");
    stage.create::<Endpoint>(&serde_json::from_value(theirs).unwrap()).await;
    let endpoints: Api<Endpoint> = Api::namespaced(stage.client.clone(), "globex");
    let uid = endpoints.get("theirs").await.unwrap().uid().unwrap();
    for host in ["taken.example", "*.wild.example"] {
        let claim: HostnameClaim = serde_json::from_value(json!({
            "apiVersion": "openchoreo.dev/v1alpha1", "kind": "HostnameClaim",
            "metadata": {"name": host.replace('*', "any")},
            "spec": {"hostname": host, "organization": "globex",
                "holder": {"namespace": "globex", "name": "theirs", "uid": uid}},
        }))
        .unwrap();
        stage.create(&claim).await;
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
    // While a route of it is left somewhere, it is not.
    mall.shop.stage.create(&claim(with_a_route)).await;
    mall.shop
        .stage
        .until("it says what it waits for", "left.example", |claim: Option<&HostnameClaim>| {
            let claim = claim?;
            let ready = kantor_api::conditions::get(&claim.status.as_ref()?.conditions, "Ready")?;
            (ready.reason == "HolderGone" && ready.message.contains("still has its routes")).then_some(())
        })
        .await;
}

/// Two operators at once, as when a leader does not know yet that it is none.
#[tokio::test(flavor = "multi_thread")]
async fn two_operators_that_race_for_hosts_leave_each_with_one_holder() {
    let mall = Mall::open().await;
    let stage = &mall.shop.stage;
    let second = crate::support::another_operator(stage).await;
    mall.deploy(json!([template("first", "/first", Value::Null)])).await;
    mall.ready(&name("first")).await;
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
