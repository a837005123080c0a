//! Waiting for the custom resource definitions: an older one would drop fields without a word.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt};
use tracing::{error, warn};

use super::sync::{self, KindState, NOT_INSTALLED, STARTING, SyncBoard};
use crate::core::{
    hierarchy::Kind,
    schema::{Fit, fit},
    scope::Scope,
};

/// When to look again at definitions that are missing or too old.
const AGAIN: Duration = Duration::from_secs(2);

/// How many fields are named of a definition that is too old.
const NAMED: usize = 5;

/// Waits until all definitions of `scope` are installed and know the fields that this operator needs. What is waited for
/// stands on the `board`.
pub async fn await_definitions(client: &Client, scope: &Scope, board: &SyncBoard) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let needed = kantor_api::crds();
    let followed: Vec<String> = Kind::ALL
        .iter()
        .filter(|kind| scope.follows(**kind))
        .map(|kind| sync::name_of(&kind.resource()))
        .collect();
    board.set(STARTING, KindState::Listing);
    let mut left: Vec<_> = needed.iter().filter(|crd| followed.contains(&crd.name_any())).collect();
    loop {
        let mut waiting = vec![];
        for crd in left {
            let problem = match definitions.get_opt(&crd.name_any()).await {
                Ok(None) => Some(NOT_INSTALLED.to_owned()),
                Ok(Some(installed)) => match fit(&installed, crd) {
                    Fit::Fits => None,
                    Fit::Older { lacks } => Some(older(&lacks)),
                },
                // Whether it fits cannot be known; whether it is there will show.
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    warn!(kind = crd.name_any(), "this operator may not read the definition: not checked");
                    None
                }
                Err(why) => Some(format!("its definition cannot be read: {why}")),
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

fn older(lacks: &[String]) -> String {
    let more = lacks.len().saturating_sub(NAMED);
    let named = lacks[..lacks.len().min(NAMED)].join(", ");
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "older than this operator needs: it lacks {named}{more}; install the new ones: kantor crds | kubectl apply --server-side -f -"
    )
}
