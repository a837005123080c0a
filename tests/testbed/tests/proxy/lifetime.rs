//! Nothing of a proxy outlives it.

use std::{fs, net::TcpStream};

use futures::StreamExt;
use kantor_testbed::proxy::Action;
use kube::api::{ListParams, WatchParams};
use tokio::time::timeout;

use crate::stand::{SOON, Stand, run};

#[test]
fn nothing_of_a_proxy_survives_its_drop() {
    run(async {
        let stand = Stand::new("drop").await;
        let version =
            stand.configs.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        let mut events = stand.configs.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        let fault = stand.fault(Action::Hang);
        let configs = stand.configs.clone();
        let hung = tokio::spawn(async move { configs.list(&ListParams::default()).await });
        fault.await_hit(SOON).await.unwrap();
        let address = stand.proxy.url().strip_prefix("https://").unwrap().to_owned();
        let thread = format!("proxy-{}", address.split(':').next_back().unwrap());
        assert!(threads().contains(&thread));

        drop(stand.proxy);

        assert!(TcpStream::connect(&address).is_err(), "the port is still open");
        assert!(!threads().contains(&thread), "the thread still runs");
        timeout(SOON, hung).await.unwrap().unwrap().unwrap_err();
        let end = timeout(SOON, events.next()).await.unwrap();
        assert!(end.is_none_or(|event| event.is_err()), "the watch goes on");
        drop(fault);
    });
}

#[test]
fn two_proxies_stand_before_one_cluster_and_do_not_mix() {
    run(async {
        let (first, second) = (Stand::new("two-a").await, Stand::new("two-b").await);
        let _broken = first.fault(Action::status(500));
        first.configs.list(&ListParams::default()).await.unwrap_err();
        second.configs.list(&ListParams::default()).await.unwrap();
        assert_eq!((first.proxy.requests().len(), second.proxy.requests().len()), (1, 1));
    });
}

/// Names of the threads of this process.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<fs::DirEntry>| fs::read_to_string(task.ok()?.path().join("comm")).ok();
    tasks.filter_map(name).map(|name| name.trim().to_owned()).collect()
}
