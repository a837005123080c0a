//! Waiting for the custom resource definitions: an older one would drop fields without a word.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kantor_core::{
    hierarchy::Kind,
    schema::{Fit, fit},
    scope::Scope,
};
use kube::{Api, Client, ResourceExt};
use tokio::{sync::Notify, time::timeout};
use tracing::{error, warn};

use super::sync::{self, KindState, NOT_INSTALLED, STARTING, SyncBoard};

/// When to look again at definitions that are missing or too old.
const AGAIN: Duration = Duration::from_secs(2);

/// How many fields are named of a definition that is too old.
const NAMED: usize = 5;

/// How often definitions are looked at that fit.
const NOW_AND_THEN: Duration = Duration::from_mins(10);

/// The definitions that `scope` needs.
fn needed(scope: &Scope) -> Vec<CustomResourceDefinition> {
    let followed: Vec<String> = Kind::ALL
        .iter()
        .filter(|kind| scope.follows(**kind))
        .map(|kind| sync::name_of(&kind.resource()))
        .collect();
    kantor_api::crds().into_iter().filter(|crd| followed.contains(&crd.name_any())).collect()
}

/// Waits until all definitions of `scope` are installed and know the fields that this operator needs. What is waited for
/// stands on the `board`.
pub async fn await_definitions(client: &Client, scope: &Scope, board: &SyncBoard) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    board.set(STARTING, KindState::Listing);
    let mut left = needed(scope);
    loop {
        let mut waiting = vec![];
        for crd in left {
            let problem = match definitions.get_opt(&crd.name_any()).await {
                Ok(None) => Some(NOT_INSTALLED.to_owned()),
                Ok(Some(installed)) => older(&installed, &crd),
                // Whether it fits cannot be known; whether it is there will show.
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    warn!(kind = crd.name_any(), "this operator may not read the definition: not checked");
                    None
                }
                Err(why) => Some(format!("its definition cannot be read: {}", describe(&why))),
            };
            let Some(problem) = problem else {
                board.forget(&crd.name_any());
                continue;
            };
            if board.set_failing(&crd.name_any(), problem.clone()) {
                error!(kind = crd.name_any(), "{problem}");
            }
            waiting.push(crd);
        }
        if waiting.is_empty() {
            return;
        }
        left = waiting;
        tokio::time::sleep(AGAIN).await;
    }
}

/// Looks at the definitions of `scope` now and then, and when there is a `doubt`; returns, and says which, when one is older
/// than this operator needs. What cannot be seen, or is gone, is told by the watches.
pub async fn await_outdated(client: &Client, scope: &Scope, doubt: &Notify) -> String {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let needed = needed(scope);
    loop {
        // Either way.
        timeout(NOW_AND_THEN, doubt.notified()).await.ok();
        for crd in &needed {
            let Ok(Some(installed)) = definitions.get_opt(&crd.name_any()).await else { continue };
            if let Some(problem) = older(&installed, crd) {
                return format!("{}: {problem}", crd.name_any());
            }
        }
    }
}

/// What the server said, or why it said nothing.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

/// What an installed definition lacks, in words.
fn older(installed: &CustomResourceDefinition, needed: &CustomResourceDefinition) -> Option<String> {
    match fit(installed, needed) {
        Fit::Fits => None,
        Fit::Older { lacks } => Some(lacking(&lacks)),
    }
}

fn lacking(lacks: &[String]) -> String {
    let more = lacks.len().saturating_sub(NAMED);
    let named = lacks[..lacks.len().min(NAMED)].join(", ");
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "older than this operator needs: it lacks {named}{more}; install the new ones: kantor crds | kubectl apply --server-side -f -"
    )
}
