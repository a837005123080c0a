use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{ListParams, WatchParams},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::client::call_metrics::Calls;

/// Shorter than anybody waits for a test, longer than an answer takes that comes.
const SHORT: Duration = Duration::from_millis(300);

/// Whoever waits for so long waits for ever.
const LONG: Duration = Duration::from_mins(1);

/// A server and a client of it. The client makes two requests at a time and one per second.
async fn connected(permit: &'static Permit, patience: Duration) -> (TcpListener, Client) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config::new(format!("http://{}", server.local_addr().unwrap()).parse().unwrap());
    let limits = Limits { concurrency: 2, qps: 1, burst: 1, read: patience, write: patience };
    let client = working(&limits, &config, permit, Calls::default().layer()).unwrap();
    (server, client)
}

/// Takes a request and answers it with these words.
async fn answer(server: &TcpListener, words: &str) -> TcpStream {
    let (mut socket, _) = server.accept().await.unwrap();
    assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0, "a request");
    socket.write_all(words.as_bytes()).await.unwrap();
    socket
}

fn is_silent(error: &kube::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().starts_with("the API server said nothing") {
            return true;
        }
        cause = error.source();
    }
    false
}

#[tokio::test]
async fn an_answer_that_does_not_begin_or_does_not_go_on_is_given_up() {
    for words in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}"] {
        let (server, client) = connected(&ALWAYS, SHORT).await;
        let namespaces: Api<Namespace> = Api::all(client);
        let (everything, the_first) = (ListParams::default(), WatchParams::default());
        let listing = timeout(LONG, namespaces.list(&everything));
        let (listed, _open) = tokio::join!(listing, answer(&server, words));
        let listed = listed.expect("it is given up");
        assert!(is_silent(&listed.unwrap_err()), "{words}");
        if !words.ends_with("{}") {
            let watching = timeout(LONG, namespaces.watch(&the_first, "1"));
            let (watched, _open) = tokio::join!(watching, answer(&server, words));
            assert!(is_silent(&watched.expect("it is given up").err().unwrap()), "{words}");
        }
    }
}

#[tokio::test]
async fn a_watch_that_stands_may_be_silent() {
    let (server, client) = connected(&ALWAYS, SHORT).await;
    let namespaces: Api<Namespace> = Api::all(client);
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let params = WatchParams::default();
    let (events, _open) = tokio::join!(namespaces.watch(&params, "1"), answer(&server, head));
    let mut events = Box::pin(events.unwrap());
    let next = timeout(SHORT * 3, futures::StreamExt::next(&mut events)).await;
    assert!(next.is_err(), "it waits");
}

#[tokio::test]
async fn a_watch_that_is_refused_does_not_stand() {
    let (server, client) = connected(&ALWAYS, Duration::from_mins(1)).await;
    let namespaces: Api<Namespace> = Api::all(client);
    let params = WatchParams::default();
    let body = r#"{"kind":"Status","code":429,"message":"later","details":{"retryAfterSeconds":7}}"#;
    let head = format!(
        "HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (refused, _) = tokio::join!(namespaces.watch(&params, "1"), answer(&server, &head));
    let Err(kube::Error::Api(status)) = refused.map(drop) else { panic!("it stands") };
    assert_eq!((status.code, status.details.unwrap().retry_after_seconds), (429, 7));
    let bare = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbusy";
    let (refused, _) = tokio::join!(namespaces.watch(&params, "1"), answer(&server, bare));
    let Err(kube::Error::Api(status)) = refused.map(drop) else { panic!("it stands") };
    assert_eq!(status.code, 503);
}

async fn write(client: &Client) -> String {
    let request = Request::post("/api/v1/namespaces").body(b"{}".to_vec()).unwrap();
    client.request_text(request).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_write_that_waited_for_its_turn_is_not_sent_when_the_permit_has_ended_meanwhile() {
    static PERMIT: Permit = Permit::ended();
    let (server, client) = connected(&PERMIT, Duration::from_mins(1)).await;
    let said = write(&client).await;
    assert!(said.contains("does not lead"), "{said}");

    PERMIT.hold_until(Instant::now() + Duration::from_hours(1));
    let (server, client) = {
        drop(server);
        connected(&PERMIT, Duration::from_mins(1)).await
    };
    // The first takes the turn of this second; the other one waits for the next.
    let hang_up = async {
        let first = answer(&server, "").await;
        PERMIT.end();
        drop(first);
    };
    let (first, second, ()) = tokio::join!(write(&client), write(&client), hang_up);
    assert!(!first.contains("does not lead"), "{first}");
    assert!(second.contains("does not lead"), "{second}");
    assert!(futures::poll!(Box::pin(server.accept())).is_pending(), "nobody was connected to again");
}
