//! Leading: one of several operators writes, the others stand by.

use std::time::{Duration, Instant};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kantor_core::election::{Step, Terms, Watched, released, step};
use kube::{Api, Client};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::{
    apply::{WriteError, Writer},
    client::fence::Permit,
};

/// A candidate.
pub struct Election {
    leases: Api<Lease>,
    writer: Writer,
    namespace: String,
    name: String,
    me: String,
    terms: Terms,
    permit: &'static Permit,
    watched: Watched,
    started: Instant,
}

impl Election {
    /// A candidate called `me` for the Lease `name`. `client` is for the Lease alone: nothing else may hold it up.
    pub fn new(
        client: &Client,
        (namespace, name): (&str, &str),
        me: String,
        terms: Terms,
        permit: &'static Permit,
    ) -> Self {
        Self {
            leases: Api::namespaced(client.clone(), namespace),
            writer: Writer::new(client.clone(), terms.renewal / 2),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            me,
            terms,
            permit,
            watched: Watched::default(),
            started: Instant::now(),
        }
    }

    /// Waits until this operator leads.
    pub async fn win(&mut self) {
        let mut told = false;
        while !self.try_once().await {
            if !told {
                info!(lease = %format!("{}/{}", self.namespace, self.name), "standing by until the lease is free");
                told = true;
            }
            sleep(self.terms.retry).await;
        }
        info!(identity = %self.me, "leading");
    }

    /// Keeps leading; returns when it no longer does.
    pub async fn keep(&mut self) {
        while self.permit.holds() {
            sleep(self.terms.retry).await;
            self.try_once().await;
        }
    }

    /// Gives the Lease up, so that nobody has to wait for its end. Nothing is written after that.
    pub async fn release(&mut self) {
        self.permit.end();
        let Ok(Ok(Some(lease))) = timeout(self.terms.renewal / 2, self.leases.get_opt(&self.name)).await
        else {
            return;
        };
        if let Some(lease) = released(&lease, &self.me, &now()) {
            match self.writer.replace(&lease).await {
                Ok(_) => info!("gave up the lease"),
                Err(error) => warn!(%error, "could not give up the lease"),
            }
        }
    }

    /// Looks at the Lease, and takes or renews it if that can be; tells whether this operator leads.
    async fn try_once(&mut self) -> bool {
        // What is granted counts from here: the server may take it for granted any time from now on.
        let asked = Instant::now();
        match self.write_lease().await {
            Ok(true) => self.permit.hold_until(asked + self.terms.renewal),
            // The Lease names another one: that one leads, whatever was believed until now.
            Ok(false) => self.permit.end(),
            // Somebody was faster, and that may have been an earlier renewal of its own that came late. The next look tells;
            // until then nothing is granted, and the permit ends by itself.
            Err(WriteError::Conflict) => info!("the lease has changed in the meantime; looking at it again"),
            // It is tried again; the permit ends by itself.
            Err(error) => warn!(%error, "cannot read or renew the lease"),
        }
        self.permit.holds()
    }

    /// Takes or renews the Lease; false if it names another one. A conflict says that it has changed, and not by whom.
    async fn write_lease(&mut self) -> Result<bool, WriteError> {
        let read = timeout(self.terms.renewal / 2, self.leases.get_opt(&self.name)).await;
        let lease = read
            .map_err(|_| WriteError::Transient("no answer in time".to_owned()))?
            .map_err(WriteError::of)?;
        let unchanged =
            lease.as_ref().map_or(Duration::ZERO, |lease| self.watched.note(lease, self.started.elapsed()));
        let at = (self.namespace.as_str(), self.name.as_str());
        match step(&self.me, at, lease.as_ref(), unchanged, &now(), &self.terms) {
            Step::Create(lease) => self.writer.create(&*lease).await?,
            Step::Write(lease) => self.writer.replace(&*lease).await?,
            Step::Wait => return Ok(false),
        };
        Ok(true)
    }
}

fn now() -> MicroTime {
    MicroTime(jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use kube::{client::Body, core::Status};
    use serde_json::json;
    use tower::{BoxError, service_fn};

    use super::*;

    const TERMS: Terms = Terms {
        lease: Duration::from_mins(30),
        renewal: Duration::from_mins(20),
        retry: Duration::from_millis(1),
    };

    /// What the server answers to writes of the Lease that `holder` has.
    #[derive(Clone, Copy)]
    enum Writes {
        /// It takes some time until they are answered.
        Accepted,
        Conflicting,
    }

    /// A candidate called `me`, and when its last write arrived.
    fn candidate(
        holder: &'static str,
        writes: Writes,
        permit: &'static Permit,
    ) -> (Election, Arc<Mutex<Option<Instant>>>) {
        let arrived: Arc<Mutex<Option<Instant>>> = Arc::default();
        let note = arrived.clone();
        let server = service_fn(move |request: Request<Body>| {
            let note = note.clone();
            async move {
                let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": "lock", "namespace": "home", "resourceVersion": "7"},
                    "spec": {"holderIdentity": holder, "leaseDurationSeconds": 1800}});
                let is_write = request.method() != Method::GET;
                if is_write {
                    *note.lock().unwrap() = Some(Instant::now());
                    sleep(Duration::from_millis(20)).await;
                }
                let answer = match writes {
                    Writes::Conflicting if is_write => {
                        let status = Status { code: 409, reason: "Conflict".into(), ..Status::default() };
                        Response::builder().status(409).body(serde_json::to_vec(&status)?)
                    }
                    _ => Response::builder().body(serde_json::to_vec(&lease)?),
                };
                Ok::<_, BoxError>(answer?.map(Body::from))
            }
        });
        let client = Client::new(server, "home");
        (Election::new(&client, ("home", "lock"), "me".to_owned(), TERMS, permit), arrived)
    }

    #[tokio::test]
    async fn what_is_granted_counts_from_before_it_was_asked_for_and_ends_before_the_lease_does() {
        static PERMIT: Permit = Permit::ended();
        let (mut candidate, arrived) = candidate("", Writes::Accepted, &PERMIT);
        candidate.win().await;
        let arrived = arrived.lock().unwrap().unwrap();
        // However long the answer took.
        assert!(PERMIT.holds() && !PERMIT.holds_at(arrived + TERMS.renewal));
    }

    #[tokio::test]
    async fn a_conflict_of_the_holder_grants_nothing_and_takes_nothing() {
        static PERMIT: Permit = Permit::ended();
        let (mut candidate, _) = candidate("me", Writes::Conflicting, &PERMIT);
        assert!(!candidate.try_once().await, "it did not lead, and does not now");
        let end = Instant::now() + Duration::from_mins(1);
        PERMIT.hold_until(end);
        assert!(candidate.try_once().await, "it may have been its own renewal that came late");
        assert!(!PERMIT.holds_at(end), "and is not renewed by that");
    }

    #[tokio::test]
    async fn a_lease_that_names_another_one_is_lost() {
        static PERMIT: Permit = Permit::ended();
        let (mut candidate, _) = candidate("other", Writes::Accepted, &PERMIT);
        PERMIT.hold_until(Instant::now() + Duration::from_mins(1));
        assert!(!candidate.try_once().await);
    }
}
