//! `headgate health`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{command, file, free_address, run};

/// A server that answers everyone the same; `None`: it stays silent.
async fn server(answer: Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let asks_for_health = request[..read].starts_with(b"GET /healthz ");
            if let Some(answer) = answer.filter(|_| asks_for_health) {
                let _ = stream.write_all(answer.as_bytes()).await;
            } else {
                open.push(stream);
            }
        }
    });
    address
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn only_a_200_is_healthy() {
    let url = |address: SocketAddr| format!("http://{address}/healthz");
    let alive = run(command(&["health", "--url", &url(server(Some(OK)).await)])).await;
    assert_eq!((alive.code, alive.err.as_str()), (Some(0), ""));
    for gone in [server(Some(BUSY)).await, free_address()] {
        let outcome = run(command(&["health", "--url", &url(gone)])).await;
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.err.contains(&url(gone)), "{outcome:?}");
    }
}

#[tokio::test]
async fn silence_is_unhealthy_after_two_seconds() {
    let url = format!("http://{}/healthz", server(None).await);
    let began = Instant::now();
    assert_eq!(run(command(&["health", "--url", &url])).await.code, Some(1));
    assert!((Duration::from_secs(2)..Duration::from_secs(5)).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_address_comes_from_the_configuration() {
    let address = server(Some(OK)).await;
    let text = format!(
        "listen: 0.0.0.0:{}\nproviders: {{o: {{dialect: openai, base_url: http://127.0.0.1:1}}}}\n\
         connections: [{{id: a, provider: o, api_key: k, models: [m]}}]\n",
        address.port()
    );
    let (_dir, path) = file(&text);
    assert_eq!(run(command(&["health", "--config", &path])).await.code, Some(0));
    let mut by_environment = command(&["health"]);
    by_environment.env("HEADGATE_CONFIG", &path).env("http_proxy", "http://127.0.0.1:1");
    assert_eq!(run(by_environment).await.code, Some(0));
}
