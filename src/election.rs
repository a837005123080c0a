//! Leading: one of several operators writes, the others stand by.

use std::time::{Duration, Instant};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{Api, Client};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::{
    apply::{WriteError, Writer},
    core::election::{Step, Terms, Watched, released, step},
    permit::Permit,
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
            // Others lead: whatever was believed until now.
            Ok(false) => self.permit.end(),
            // It is tried again; the permit ends by itself.
            Err(error) => warn!(%error, "cannot read or renew the lease"),
        }
        self.permit.holds()
    }

    async fn write_lease(&mut self) -> Result<bool, WriteError> {
        let read = timeout(self.terms.renewal / 2, self.leases.get_opt(&self.name)).await;
        let lease = read
            .map_err(|_| WriteError::Transient("no answer in time".to_owned()))?
            .map_err(WriteError::of)?;
        let unchanged =
            lease.as_ref().map_or(Duration::ZERO, |lease| self.watched.note(lease, self.started.elapsed()));
        let at = (self.namespace.as_str(), self.name.as_str());
        let written = match step(&self.me, at, lease.as_ref(), unchanged, &now(), &self.terms) {
            Step::Create(lease) => self.writer.create(&*lease).await,
            Step::Write(lease) => self.writer.replace(&*lease).await,
            Step::Wait => return Ok(false),
        };
        match written {
            Ok(_) => Ok(true),
            // Somebody was faster; the next look tells who.
            Err(WriteError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn now() -> MicroTime {
    MicroTime(jiff::Timestamp::now())
}
