//! Requests as the API servers themselves count them: that costs nothing while something is measured.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::Client;

use super::{
    result::{RequestRow, RequestTable},
    statistics::number,
};

/// What was asked of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    /// `APPLY`, `PATCH`, `POST`, `PUT`, `DELETE`, `GET`, `LIST`, `WATCH`.
    pub verb: String,
    /// `services`, `deployments.apps/status`.
    pub resource: String,
    /// Whether it succeeded: conflicts and the like did not.
    pub good: bool,
}

impl Call {
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "APPLY" | "PATCH" | "POST" | "PUT" | "DELETE" | "DELETECOLLECTION")
    }

    fn shown(&self) -> String {
        let failed = if self.good { "" } else { " (failed)" };
        format!("{} {}{failed}", self.verb, self.resource)
    }
}

/// How many requests there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests(pub BTreeMap<Call, usize>);

/// What servers ask of themselves.
const OWN: [&str; 8] = [
    "leases.coordination.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "ipaddresses.networking.k8s.io",
    "servicecidrs.networking.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "endpointslices.discovery.k8s.io",
];

impl Requests {
    /// All requests to a server since its start, without what it asks of itself.
    pub(crate) async fn to(client: &Client) -> Result<Self> {
        let request = hyper::Request::get("/metrics").body(Vec::new())?;
        let text = client.request_text(request).await.context("read the metrics of an API server")?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.lines() {
            if let Some((call, count)) = line.strip_prefix("apiserver_request_total{").and_then(parse) {
                *all.0.entry(call).or_default() += count;
            }
        }
        let is_own = |call: &Call| {
            let resource = call.resource.split('/').next().unwrap_or_default();
            // What is no resource: health, discovery, metrics.
            resource.is_empty() || (OWN.contains(&resource) && !(call.is_write() && is_slice(resource)))
        };
        all.0.retain(|call, _| !is_own(call));
        all
    }

    /// What came since `before`.
    #[must_use]
    pub(crate) fn since(&self, before: &Self) -> Self {
        let more = |(call, count): (&Call, &usize)| {
            let more = count.saturating_sub(before.0.get(call).copied().unwrap_or_default());
            (more > 0).then(|| (call.clone(), more))
        };
        Self(self.0.iter().filter_map(more).collect())
    }

    /// Both together.
    #[must_use]
    pub(crate) fn and(mut self, other: &Self) -> Self {
        for (call, count) in &other.0 {
            *self.0.entry(call.clone()).or_default() += count;
        }
        self
    }

    /// Without requests of the bench's own.
    #[must_use]
    pub(crate) fn without(mut self, verb: &str, resource: &str, own: usize) -> Self {
        let call = Call { verb: verb.to_owned(), resource: resource.to_owned(), good: true };
        if let Some(count) = self.0.get_mut(&call) {
            *count = count.saturating_sub(own);
        }
        self.0.retain(|_, count| *count > 0);
        self
    }

    pub(crate) fn total(&self, wanted: impl Fn(&Call) -> bool) -> usize {
        self.0.iter().filter(|(call, _)| wanted(call)).map(|(_, count)| count).sum()
    }

    pub(crate) fn writes(&self) -> usize {
        self.total(Call::is_write)
    }

    /// Everything but the watches and lists with which they begin.
    pub(crate) fn calls(&self) -> usize {
        self.total(|call| !matches!(call.verb.as_str(), "WATCH" | "LIST"))
    }

    /// One line for people.
    pub(crate) fn shown(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(call, count)| format!("{count} × {}", call.shown())).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }

    /// Requests per Deployment beside those of the floor.
    pub(crate) fn per(&self, count: usize, floor: Option<&Self>, table: RequestTable) -> RequestTable {
        let mut calls: Vec<&Call> =
            self.0.keys().chain(floor.into_iter().flat_map(|floor| floor.0.keys())).collect();
        calls.sort();
        calls.dedup();
        let per = |requests: &Self, call: &Call| {
            number(requests.0.get(call).copied().unwrap_or_default()) / number(count.max(1))
        };
        let row = |call: &&Call| RequestRow {
            call: call.shown(),
            kantor: per(self, call),
            floor: floor.map(|floor| per(floor, call)),
        };
        let mut rows: Vec<RequestRow> = calls.iter().map(row).collect();
        // A watch or two is no request per Deployment.
        rows.retain(|row| row.kantor >= 0.02 || row.floor.is_some_and(|floor| floor >= 0.02));
        RequestTable { rows, ..table }
    }
}

/// Slices are written by controllers, and by nobody else.
fn is_slice(resource: &str) -> bool {
    resource.starts_with("endpointslices")
}

/// The labels of a line of metrics, and its value.
fn parse(line: &str) -> Option<(Call, usize)> {
    let (labels, value) = line.rsplit_once('}')?;
    let label = |name: &str| {
        labels.split("\",").find_map(|part| {
            let (key, value) = part.split_once("=\"")?;
            (key == name).then(|| value.trim_end_matches('"').to_owned())
        })
    };
    let (group, subresource) = (label("group")?, label("subresource")?);
    let mut resource = label("resource")?;
    for (mark, part) in [('.', group), ('/', subresource)] {
        if !part.is_empty() {
            resource = format!("{resource}{mark}{part}");
        }
    }
    let good = label("code").is_some_and(|code| code.starts_with('2') || code == "0");
    // Prometheus writes large counts as 1.2e+06.
    let value: f64 = value.trim().parse().ok()?;
    let count = format!("{value:.0}").parse().ok()?;
    Some((Call { verb: label("verb")?, resource, good }, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="APPLY",version="v1"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="APPLY",version="v1"} 1.2e+03
apiserver_request_total{code="409",component="apiserver",dry_run="",group="openchoreo.dev",resource="endpoints",scope="resource",subresource="status",verb="APPLY",version="v1alpha1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 9
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="/metrics",verb="GET",version=""} 9
apiserver_request_total{code="0",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 1
apiserver_request_duration_seconds_sum{verb="APPLY"} 7
"#;

    fn call(verb: &str, resource: &str, good: bool) -> Call {
        Call { verb: verb.into(), resource: resource.into(), good }
    }

    #[test]
    fn requests_are_counted_by_verb_resource_and_success() {
        let expected = BTreeMap::from([
            (call("APPLY", "deployments.apps", true), 1203),
            (call("APPLY", "endpoints.openchoreo.dev/status", false), 2),
            (call("WATCH", "pods", true), 1),
        ]);
        let requests = Requests::parse(METRICS);
        assert_eq!(requests.0, expected);
        assert_eq!((requests.writes(), requests.calls()), (1205, 1205));
    }

    #[test]
    fn only_what_came_since_is_left() {
        let before = Requests(BTreeMap::from([(call("APPLY", "deployments.apps", true), 1200)]));
        let after = Requests::parse(METRICS).since(&before);
        assert_eq!(after.0[&call("APPLY", "deployments.apps", true)], 3);
        let left = after.clone().without("APPLY", "deployments.apps", 3);
        assert_eq!(left.total(|call| call.resource == "deployments.apps"), 0);
        assert!(Requests::parse(METRICS).since(&Requests::parse(METRICS)).0.is_empty());
        assert_eq!(Requests::default().shown(), "none");
    }

    /// In tenths.
    fn amount(value: f64) -> i32 {
        format!("{:.0}", value * 10.0).parse().unwrap()
    }

    #[test]
    fn a_table_shows_requests_per_deployment_beside_those_of_the_floor() {
        let kantor = Requests(BTreeMap::from([
            (call("APPLY", "services", true), 10),
            (call("WATCH", "services", true), 0),
        ]));
        let floor = Requests(BTreeMap::from([
            (call("APPLY", "services", true), 5),
            (call("POST", "secrets", true), 5),
        ]));
        let table = kantor.per(5, Some(&floor), RequestTable::default());
        let rows: Vec<_> = table
            .rows
            .iter()
            .map(|row| (row.call.as_str(), amount(row.kantor), row.floor.map(amount)))
            .collect();
        assert_eq!(rows, [("APPLY services", 20, Some(10)), ("POST secrets", 0, Some(10))]);
    }
}
