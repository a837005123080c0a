//! Real traffic through a real gateway: what the objects that Kantor writes on a plane come to.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]
#![allow(clippy::needless_pass_by_value, reason = "json!(…) is passed as it is written")]

mod kantor;
mod load;
mod paths;
mod policies;
mod routes;
mod support;

use anyhow::Result;
use kantor_testbed::gateway::isolated;
use support::Site;

#[test]
fn endpoints_are_reached_by_those_whom_their_policies_let_in() -> Result<()> {
    isolated("endpoints_are_reached_by_those_whom_their_policies_let_in", || async {
        let site = Site::start().await?;
        let platform = kantor::Platform::start(&site).await?;
        kantor::an_endpoint_is_reached_under_its_address_and_no_other(&platform).await;
        kantor::no_request_reaches_what_it_has_no_token_for(&platform).await;
        kantor::keys_passwords_limits_and_pages_are_checked(&platform).await;
        kantor::a_host_is_handed_over_under_load_without_a_failed_request(&platform).await;
        Ok(())
    })
}

/// One after the other on one plane: its start takes longer than all of them.
#[test]
fn envoy_gateway_does_as_its_objects_say() -> Result<()> {
    isolated("envoy_gateway_does_as_its_objects_say", || async {
        let site = Site::start().await?;
        site.cluster.apply_yaml(include_str!("application.yaml")).await?;
        routes::prefixes_are_rewritten(&site).await;
        routes::paths_are_rewritten_by_expressions(&site).await;
        routes::a_route_without_a_back_end_fails(&site).await;
        routes::the_older_of_two_routes_wins(&site).await;
        routes::a_route_may_lead_out_of_the_cluster(&site).await;
        policies::tokens_need_the_scope(&site).await;
        policies::a_default_refuses_everybody(&site).await;
        policies::keys_are_checked(&site).await;
        policies::keys_may_be_called_bearer(&site).await;
        policies::passwords_are_checked(&site).await;
        policies::requests_are_limited(&site).await;
        policies::pages_are_told_what_they_may_ask(&site).await;
        policies::a_broken_policy_closes_its_route(&site).await;
        policies::a_policy_that_waits_for_its_route_leaves_no_gap(&site).await;
        paths::no_spelling_of_a_path_gets_around_a_policy(&site).await;
        load::a_rollout_loses_hardly_a_request(&site).await;
        Ok(())
    })
}
