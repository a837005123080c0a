use secrecy::SecretString;

use super::*;
use crate::planes::{Auth, RemoteAccess, fake};

fn key() -> PlaneKey {
    PlaneKey { namespace: "acme".to_owned(), name: "plane".to_owned() }
}

fn access(token: &str) -> Access {
    Access::Remote(RemoteAccess {
        server: http::Uri::from_static("https://10.0.0.1:6443"),
        tls_server_name: None,
        ca_pem: None,
        auth: Auth::Token(SecretString::from(token)),
    })
}

fn planes() -> Planes {
    Planes::new(
        PlaneOptions::default(),
        None,
        Metrics::default(),
        &TaskTracker::new(),
        &CancellationToken::new(),
    )
}

/// A plane of the connector with this number.
async fn plane(id: u64) -> Plane {
    fake::plane(fake::discovery(&[], &[]), |_| fake::list(&[])).await.numbered(id)
}

#[tokio::test]
async fn a_connector_that_ends_late_does_not_take_away_the_plane_of_its_successor() {
    let planes = planes();
    let running = CancellationToken::new();
    planes.hub.put(&plane(1).await, &running);
    planes.hub.put(&plane(2).await, &running);
    planes.hub.withdraw(&key(), 1);
    assert_eq!(planes.get(&key()).unwrap().id(), 2);
    planes.hub.withdraw(&key(), 2);
    assert_eq!(planes.get(&key()).unwrap_err(), NotConnected::NotWanted(key()));
}

#[tokio::test]
async fn a_connector_that_was_stopped_hands_out_nothing() {
    let planes = planes();
    let stopped = CancellationToken::new();
    stopped.cancel();
    planes.hub.put(&plane(1).await, &stopped);
    assert!(planes.get(&key()).is_err());
}

#[tokio::test]
async fn a_plane_is_measured_from_when_it_is_wanted_until_it_is_forgotten() {
    let planes = planes();
    let text = || planes.hub.metrics.encode().unwrap();
    // {"exp": 1900000000}
    planes.want(&key(), access("e30.eyJleHAiOjE5MDAwMDAwMDB9.e30"));
    assert!(text().contains(r#"kantor_plane_connected{data_plane="acme/plane"} 0"#), "{}", text());
    let expiry = r#"kantor_plane_credentials_expiry_timestamp_seconds{data_plane="acme/plane"} 1900000000"#;
    assert!(text().contains(expiry), "{}", text());
    planes.want(&key(), access("not a JWT"));
    assert!(!text().contains("credentials_expiry"), "{}", text());
    planes.forget(&key()).await;
    assert!(!text().contains("acme/plane"), "{}", text());
}
