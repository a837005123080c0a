use std::time::Instant;
use kantor_testbed::{Cluster, CrdBundle};
#[tokio::test]
#[ignore]
async fn timing() {
    for _ in 0..3 {
    let t = Instant::now();
    let _c = Cluster::builder().controllers(true).scheduler(true).nodes(3).crds(&CrdBundle::ALL).start().await.unwrap();
    eprintln!("full {:?}", t.elapsed());
    }
}
