//! Texts that end up in objects of data planes are accepted exactly when Kubernetes itself accepts them there: what
//! is refused is refused at once and by its name, not later and somewhere else.

use k8s_openapi::api::{
    batch::v1::CronJob,
    core::v1::{ConfigMap, Pod},
};
use kantor_api::{ConfigurationGroup, DeployableArtifact};
use kube::{Api, Resource};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{api_in, try_to_create};

const NAMESPACE: &str = "api-as-kubernetes";

/// Whether the server would accept the object.
async fn accepted<K>(api: Api<K>, mut object: Value) -> bool
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    object["metadata"] = json!({"name": "text"});
    match try_to_create(&api, &object).await {
        Ok(_) => true,
        // Kubernetes' own kinds refuse some texts while they are read: as a bad request.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => false,
        Err(error) => panic!("{object}: {error}"),
    }
}

async fn accepted_in_an_artifact(application: Value) -> bool {
    let target = json!({"fromImageRef": {"tag": "v1"}});
    let spec = json!({"targetArtifact": target, "configuration": {"application": application}});
    accepted(api_in::<DeployableArtifact>(NAMESPACE).await, json!({"spec": spec})).await
}

async fn accepted_in_a_container(mut container: Value) -> bool {
    container["name"] = "main".into();
    container["image"] = "example".into();
    accepted(api_in::<Pod>(NAMESPACE).await, json!({"spec": {"containers": [container]}})).await
}

#[rstest]
#[case::five_fields("*/5 * * * *", true)]
#[case::ranges_lists_and_steps("0,30 0-6,22 1-31/2 1,12 1-5", true)]
#[case::a_step_from_a_start("5/15 * * * *", true)]
#[case::names("0 6 * JAN-mar Mon,fri", true)]
#[case::leading_zeros("00 08 01 01 00", true)]
#[case::any_day("0 6 ? * ?", true)]
#[case::several_spaces("0  6 * * *", true)]
#[case::a_word("@midnight", true)]
#[case::an_interval("@every 1h30m", true)]
#[case::sunday_as_seven("0 6 * * 7", false)]
#[case::four_fields("0 6 * *", false)]
#[case::six_fields("0 0 6 * * *", false)]
#[case::minute_60("60 * * * *", false)]
#[case::hour_24("0 24 * * *", false)]
#[case::day_0("0 0 0 * *", false)]
#[case::month_13("0 0 1 13 *", false)]
#[case::no_month("0 0 1 xyz *", false)]
#[case::last_day("0 0 L * *", false)]
#[case::step_0("*/0 * * * *", false)]
#[case::no_word("@fortnightly", false)]
#[case::no_interval("@every day", false)]
#[case::nothing("", false)]
#[tokio::test]
async fn a_schedule_is_accepted_exactly_when_a_cron_job_takes_it(#[case] cron: &str, #[case] good: bool) {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "example"}]});
    let job = json!({"schedule": cron, "jobTemplate": {"spec": {"template": {"spec": pod}}}});
    assert_eq!(accepted(api_in::<CronJob>(NAMESPACE).await, json!({"spec": job})).await, good, "CronJob");
    assert_eq!(accepted_in_an_artifact(json!({"task": {"schedule": {"cron": cron}}})).await, good, "Kantor");
}

#[rstest]
#[case::milli("500m", true)]
#[case::fraction("0.5", true)]
#[case::binary("256Mi", true)]
#[case::exponent("1e3", true)]
#[case::nothing_of_it("0", true)]
#[case::words("half", false)]
#[case::negative("-1", false)]
#[case::unknown_unit("1Zi", false)]
#[case::a_space("1 Gi", false)]
#[tokio::test]
async fn a_limit_is_accepted_exactly_when_a_container_takes_it(#[case] limit: &str, #[case] good: bool) {
    let resources = json!({"limits": {"memory": limit}});
    assert_eq!(accepted_in_a_container(json!({"resources": resources})).await, good, "container");
    assert_eq!(accepted_in_an_artifact(json!({"resourceLimits": {"memory": limit}})).await, good, "Kantor");
}

#[rstest]
#[case::usual("LOG_LEVEL", true)]
#[case::dots_and_dashes("log.level-1", true)]
#[case::a_space("LOG LEVEL", true)]
#[case::equals("A=B", false)]
#[case::not_ascii("GRÜSSE", false)]
#[case::a_tab("A\tB", false)]
#[case::nothing("", false)]
#[tokio::test]
async fn a_variable_is_accepted_exactly_when_a_container_takes_it(#[case] name: &str, #[case] good: bool) {
    assert_eq!(
        accepted_in_a_container(json!({"env": [{"name": name, "value": "a"}]})).await,
        good,
        "container"
    );
    assert_eq!(accepted_in_an_artifact(json!({"env": [{"key": name, "value": "a"}]})).await, good, "Kantor");
}

#[rstest]
#[case::usual("database.host_1-a", true)]
#[case::hidden(".env", true)]
#[case::a_slash("a/b", false)]
#[case::a_space("a b", false)]
#[case::here(".", false)]
#[case::above("..", false)]
#[case::above_and_more("..a", false)]
#[tokio::test]
async fn a_key_is_accepted_exactly_when_a_config_map_takes_it(#[case] key: &str, #[case] good: bool) {
    let map = json!({"data": {key: "a"}});
    assert_eq!(accepted(api_in::<ConfigMap>(NAMESPACE).await, map).await, good, "ConfigMap");
    let group = json!({"spec": {"configurations": [{"key": key, "values": []}]}});
    assert_eq!(accepted(api_in::<ConfigurationGroup>(NAMESPACE).await, group).await, good, "Kantor");
}
