//! What the operator tells of itself: metrics, logs, traces.

mod collector;

use std::collections::{BTreeMap, BTreeSet};

use kantor::telemetry::metrics::table;
use kantor_api::DataPlane;
use kantor_testbed::wait::{self, Seen};
use kube::{Api, api::ListParams};
use serde_json::json;

use self::collector::{Collector, Span};
use crate::{
    acme::{acme_with, register, wait_plane_condition},
    deployment::support::{DeploymentFixture, IMAGE, endpoint, namespace},
    release::support::{Plane, ReleaseFixture, config_map, is_probe},
    support::{OperatorFixture, PATIENCE},
};

/// A sample: its labels and its value.
type Sample = (BTreeMap<String, String>, f64);

/// What is scraped, by name.
pub struct Scraped(BTreeMap<String, Vec<Sample>>);

impl Scraped {
    pub async fn of(control: &OperatorFixture) -> Self {
        let (status, text) = control.operator.get("/metrics").await.unwrap();
        assert_eq!(status, 200);
        let mut samples: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let labels = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty());
            let labels = labels.map(|label| {
                let (key, value) = label.split_once("=\"").unwrap();
                (key.to_owned(), value.trim_end_matches('"').to_owned())
            });
            samples.entry(name.to_owned()).or_default().push((labels.collect(), value.parse().unwrap()));
        }
        Self(samples)
    }

    /// The values of all samples of a name.
    pub fn values(&self, name: &str) -> impl Iterator<Item = f64> {
        self.0.get(name).into_iter().flatten().map(|(_, value)| *value)
    }

    fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let matches = |sample: &Sample| {
            labels.iter().all(|(key, value)| sample.0.get(*key).is_some_and(|found| found == value))
        };
        self.0.get(name)?.iter().find(|sample| matches(sample)).map(|sample| sample.1)
    }

    /// What differs from the table of metrics.
    fn differences(&self) -> Vec<String> {
        let mut rest = self.0.clone();
        let mut wrong = vec![];
        for entry in table::all() {
            let declared: BTreeSet<&str> = entry.labels.iter().map(|(label, _)| *label).collect();
            for series in entry.series() {
                let Some(samples) = rest.remove(&series) else {
                    wrong.push(format!("{series} is missing"));
                    continue;
                };
                for (labels, _) in samples {
                    let found: BTreeSet<&str> =
                        labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
                    if found != declared {
                        wrong.push(format!("{series} has {found:?}"));
                    }
                }
            }
        }
        wrong.extend(rest.into_keys().map(|name| format!("{name} is not documented")));
        wrong
    }
}

/// How often objects of a controller were looked at, without an error.
pub async fn looks(control: &OperatorFixture, controller: &str) -> f64 {
    let labels = [("controller", controller), ("result", "success")];
    Scraped::of(control).await.get("kantor_reconciles_total", &labels).unwrap()
}

/// Waits until objects of a controller were looked at more often than `before`.
pub async fn until_looked_at(control: &OperatorFixture, controller: &str, before: f64) {
    let labels = [("controller", controller), ("result", "success")];
    until_value(control, "kantor_reconciles_total", &labels, |count| count > before).await;
}

/// Does something that wakes objects of these controllers, and waits until each of them has looked. Nothing may be under way
/// when it begins: a look that was would be taken for the one that is waited for.
pub async fn looked_at(control: &OperatorFixture, controllers: &[&str], wake: impl Future<Output = ()>) {
    let mut before = vec![];
    for controller in controllers {
        before.push((controller, looks(control, controller).await));
    }
    wake.await;
    for (controller, before) in before {
        until_looked_at(control, controller, before).await;
    }
}

/// How often anything was looked at.
async fn all_looks(control: &OperatorFixture) -> f64 {
    Scraped::of(control).await.values("kantor_reconciles_total").sum()
}

/// Waits until nothing is looked at and nothing is asked while the operator probes a plane several times, a second or more
/// apart. Its probes are the clock: on a busy machine they come as late as what it might still have to do.
pub async fn until_at_rest(control: &OperatorFixture, plane: &Plane) {
    // Longer than anything that is looked at again and again: twice the three seconds that a workload is given.
    const PROBES: usize = 7;
    wait::until("nothing is looked at or asked for any more", PATIENCE, || async {
        let (before, here, there) = (all_looks(control).await, control.proxy.mark(), plane.proxy.mark());
        wait::until("the plane is probed", PATIENCE, || async {
            let probes = plane.proxy.since(there).filter(is_probe).len();
            Ok(if probes >= PROBES { Seen::Done(()) } else { Seen::NotYet(format!("{probes} times")) })
        })
        .await?;
        let (looks, asked) = (all_looks(control).await - before, plane.all_since(there));
        let requests = control.proxy.since(here);
        let rests = looks == 0.0 && asked.is_empty() && requests.is_empty();
        let seen = format!("{looks} looks, and\n{requests}\n{asked}");
        Ok(if rests { Seen::Done(()) } else { Seen::NotYet(seen) })
    })
    .await
    .unwrap();
}

/// Waits until the operator has its data planes: until then it asks for nothing, and has seen nothing.
pub async fn until_connected(control: &OperatorFixture) {
    let registered: Api<DataPlane> = Api::all(control.client.clone());
    wait::until("the data planes are connected", PATIENCE, || async {
        let registered = registered.list(&ListParams::default()).await?.items.len();
        let scraped = Scraped::of(control).await;
        let connected = scraped.values("kantor_plane_connected").filter(|value| *value > 0.0).count();
        let seen = format!("{connected} of {registered}");
        Ok(if connected == registered { Seen::Done(()) } else { Seen::NotYet(seen) })
    })
    .await
    .unwrap();
}

/// Waits until a sample has a value.
pub async fn until_value(
    control: &OperatorFixture,
    name: &str,
    labels: &[(&str, &str)],
    seen: impl Fn(f64) -> bool,
) {
    wait::until(&format!("{name} {labels:?}"), PATIENCE, || async {
        let value = Scraped::of(control).await.get(name, labels);
        Ok(if value.is_some_and(&seen) { Seen::Done(()) } else { Seen::NotYet(format!("{value:?}")) })
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_scraped_is_what_is_documented_and_tells_what_happened() {
    let fixture = DeploymentFixture::open().await;
    let control = &fixture.control;
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)]});
    fixture.artifact("cart", "cart", IMAGE, configuration).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = fixture.ready("cart").await;
    // Nothing listens there.
    let cluster = &fixture.plane.cluster;
    let nowhere = cluster.client_certificate_kubeconfig("kantor", &[]).unwrap();
    let nowhere = nowhere.at("https://127.0.0.1:1", cluster.ca_pem());
    register(control, "lost", &nowhere).await;
    wait_plane_condition(control, "lost", "Unknown", "DataPlaneUnreachable").await;

    wait::until("all metrics are there", PATIENCE, || async {
        let wrong = Scraped::of(control).await.differences();
        Ok(if wrong.is_empty() { Seen::Done(()) } else { Seen::NotYet(format!("{wrong:#?}")) })
    })
    .await
    .unwrap();
    let (plane, lost) = (("data_plane", "acme/plane"), ("data_plane", "acme/lost"));
    // A plane is probed for the first time some seconds after it was found.
    until_value(control, "kantor_plane_probe_duration_seconds_count", &[plane], |count| count > 0.0).await;
    // And the operator hears of what it has said of one some time after everybody else.
    let unknown = [("kind", "DataPlane"), ("ready", "unknown")];
    until_value(control, "kantor_objects", &unknown, |count| count > 0.0).await;
    let scraped = Scraped::of(control).await;
    for (name, labels, expected) in [
        ("kantor_leader", &[][..], 1.0),
        ("kantor_objects", &[("kind", "Deployment"), ("ready", "true")], 1.0),
        ("kantor_objects", &[("kind", "DataPlane"), ("ready", "unknown")], 1.0),
        ("kantor_objects", &[("kind", "DataPlane"), ("ready", "true")], 1.0),
        ("kantor_plane_connected", &[plane], 1.0),
        ("kantor_plane_connected", &[lost], 0.0),
        ("kantor_plane_disconnects_total", &[lost, ("reason", "Unreachable")], 1.0),
        ("kantor_watch_synced", &[("kind", "deployments.openchoreo.dev")], 1.0),
        ("kantor_applied_objects_total", &[plane, ("result", "repaired")], 0.0),
    ] {
        assert_eq!(scraped.get(name, labels), Some(expected), "{name} {labels:?}");
    }
    for (name, labels) in [
        ("kantor_plane_calls_total", &[plane, ("verb", "apply"), ("result", "ok")][..]),
        ("kantor_plane_calls_total", &[plane, ("verb", "watch"), ("result", "ok")]),
        ("kantor_control_plane_calls_total", &[("verb", "apply"), ("result", "ok")]),
        ("kantor_plane_probe_duration_seconds_count", &[plane]),
        ("kantor_reconcile_wait_seconds_count", &[("controller", "deployment")]),
        ("kantor_deploy_operations_total", &[plane, ("action", "apply"), ("result", "success")]),
        ("kantor_applied_objects_total", &[plane, ("result", "created")]),
        ("kantor_plane_credentials_expiry_timestamp_seconds", &[lost]),
        ("process_resident_memory_bytes", &[]),
    ] {
        assert!(scraped.get(name, labels).is_some_and(|value| value > 0.0), "{name} {labels:?}");
    }

    // What somebody else changes is repaired, and counted.
    let workload = fixture.live(&deployment, "Deployment").await;
    let name = workload["metadata"]["name"].as_str().unwrap();
    let patch = json!({"metadata": {"labels": {"openchoreo.dev/name": "stolen", "managed-by": "me"}},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "example.com/other:1"}]}}}});
    fixture.plane.patch("apps/v1/Deployment", &namespace(&deployment), name, patch).await;
    until_value(control, "kantor_applied_objects_total", &[plane, ("result", "repaired")], |count| {
        count > 0.0
    })
    .await;

    // A plane that is forgotten leaves nothing behind.
    control.delete::<DataPlane>("acme/lost").await;
    control.until_gone::<DataPlane>("acme/lost").await;
    wait::until("its series are gone", PATIENCE, || async {
        let (_, text) = control.operator.get("/metrics").await?;
        Ok(if text.contains("acme/lost") { Seen::NotYet(text) } else { Seen::Done(()) })
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_logged_can_be_changed_while_the_operator_runs() {
    let control = OperatorFixture::start_with(&["--log=info,kube_client=error"]).await;
    let operator = &control.operator;
    assert_eq!(
        operator.get("/loglevel").await.unwrap(),
        (200.try_into().unwrap(), "info,kube_client=error\n".into())
    );
    let (status, said) = operator.put("/loglevel", "a=b=c").await.unwrap();
    assert!(status == 400 && said.contains("expected a level"), "{status} {said}");
    assert_eq!(operator.get("/loglevel").await.unwrap().1, "info,kube_client=error\n");

    let logs_debug = || operator.log().contains(r#""level":"DEBUG""#);
    assert!(!logs_debug(), "{}", operator.log());
    assert_eq!(operator.put("/loglevel", "debug,kube=info,hyper=info,tower=info").await.unwrap().0, 200);
    organization(&control, "acme").await;
    wait::until("it logs more", PATIENCE, || async {
        Ok(if logs_debug() { Seen::Done(()) } else { Seen::NotYet(operator.log()) })
    })
    .await
    .unwrap();
    assert_eq!(operator.put("/loglevel", "warn").await.unwrap().0, 200);

    // A signal adds everything of Kantor's own, and takes it away again.
    for expected in ["warn,kantor=debug\n", "warn\n"] {
        operator.toggle_log().unwrap();
        wait::until("the signal was taken", PATIENCE, || async {
            let (_, filter) = operator.get("/loglevel").await?;
            Ok(if filter == expected { Seen::Done(()) } else { Seen::NotYet(filter) })
        })
        .await
        .unwrap();
    }
    let before = operator.log();
    organization(&control, "quiet").await;
    assert_eq!(operator.log(), before, "nothing is worth a warning");
}

async fn organization(control: &OperatorFixture, name: &str) {
    use kantor_api::{Organization, organization::OrganizationSpec};
    control.create(&Organization::new(name, OrganizationSpec {})).await;
    control
        .until("the organization is ready", name, |found: Option<&Organization>| {
            found.filter(|found| crate::support::is_ready(*found)).map(|_| ())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_leads_from_a_reconcile_to_the_write_on_a_plane() {
    let collector = Collector::start().await;
    let endpoint = format!("--otlp-endpoint={}", collector.url());
    let arguments = [endpoint.as_str()];
    let (control, plane) = tokio::join!(acme_with(&arguments), Plane::start("plane"));
    let fixture = ReleaseFixture::with(control, plane).await;
    fixture.create("shop", &[("settings", config_map("settings", json!({"colour": "blue"})))]).await;
    fixture.ready("shop").await;

    let is_write = |span: &Span| {
        span.name == "write"
            && span.attribute("verb") == Some("apply")
            && span.attribute("kind") == Some("ConfigMap")
            && span.attribute("key") == Some("settings")
            && span.attribute("plane") == Some("acme/plane")
    };
    let (reconcile, write) = wait::until("the trace has arrived", PATIENCE, || async {
        let spans = collector.spans();
        let found = spans.iter().filter(|span| is_write(span)).find_map(|write| {
            let above = collector::ancestors(&spans, write);
            let reconcile = above.iter().find(|span| span.name == "reconcile")?;
            Some((reconcile.clone(), write.clone()))
        });
        Ok(found.map_or_else(
            || Seen::NotYet(format!("{} spans\n{}", spans.len(), fixture.control.operator.log())),
            Seen::Done,
        ))
    })
    .await
    .unwrap();
    assert_eq!(write.attribute("outcome"), Some("ok"));
    assert_eq!(reconcile.attribute("controller"), Some("release"));
    assert!(reconcile.attribute("object").unwrap().contains("shop"), "{reconcile:?}");
    assert_eq!(reconcile.attribute("generation"), Some("1"));
    assert!(reconcile.attribute("cause").is_some(), "{reconcile:?}");
    assert_eq!(reconcile.service, ("kantor".to_owned(), kantor::VERSION.to_owned()));

    // What has not been sent yet is sent at the end.
    let operator = &fixture.control.operator;
    let before = collector.spans().len();
    let looked = looks(&fixture.control, "release").await;
    fixture.annotate("shop", "touched", "yes").await;
    until_looked_at(&fixture.control, "release", looked).await;
    operator.terminate().unwrap();
    assert!(operator.ended().await.unwrap().success());
    assert!(collector.spans().len() > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_holds_up_nothing() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("--otlp-endpoint=http://{}", silent.local_addr().unwrap());
    let control = OperatorFixture::start_with(&[&endpoint]).await;
    organization(&control, "acme").await;
    control.operator.terminate().unwrap();
    // The patience of the testbed is a minute, which is more than the last words may take.
    assert!(control.operator.ended().await.unwrap().success());
    drop(silent);
}
