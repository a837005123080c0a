//! Nodes without machines: kwok keeps them ready and runs their pods.

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;

use crate::wait::Seen;

/// Creates `node-1`, `node-2`, …, each large enough for any test.
pub(super) async fn create(client: &Client, count: usize) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 1..=count {
        let name = format!("node-{number}");
        let room = json!({"cpu": "1000", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": "10000"});
        let node = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "type": "kwok",
                },
            },
            "status": {"allocatable": room, "capacity": room},
        }))?;
        nodes.create(&PostParams::default(), &node).await?;
    }
    Ok(())
}

/// Done when pods can be scheduled on all nodes.
pub(super) async fn ready(client: &Client, count: usize) -> Result<Seen<()>> {
    let nodes = match Api::<Node>::all(client.clone()).list(&ListParams::default()).await {
        Ok(nodes) => nodes.items,
        Err(error) => return Ok(Seen::NotYet(error.to_string())),
    };
    let waiting: Vec<_> = nodes.iter().filter(|node| !is_ready(node)).map(ResourceExt::name_any).collect();
    Ok(if nodes.len() >= count && waiting.is_empty() {
        Seen::Done(())
    } else {
        Seen::NotYet(format!("{} nodes, not ready: {waiting:?}", nodes.len()))
    })
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready =
        conditions.filter(|condition| condition.type_ == "Ready").any(|condition| condition.status == "True");
    // The node-lifecycle controller takes this taint away a moment after the condition turns.
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    ready && !taints.into_iter().any(|taint| taint.key == "node.kubernetes.io/not-ready")
}
