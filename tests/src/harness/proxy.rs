//! A TCP proxy that can cut, stall and delay what passes through it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// What happens to bytes on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pass,
    Delay(Duration),
    Stall,
    Cut,
}

/// A proxy in front of one address; it ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    server: JoinHandle<()>,
}

impl Proxy {
    /// Passes everything on to `upstream`.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let (mode, watched) = watch::channel(Mode::Pass);
        let server = tokio::spawn(accept(listener, upstream, watched));
        Self { address, mode, server }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes everything on at once.
    pub fn pass(&self) {
        self.mode.send_replace(Mode::Pass);
    }

    /// Holds every piece back for this long.
    pub fn delay(&self, wait: Duration) {
        self.mode.send_replace(Mode::Delay(wait));
    }

    /// Keeps connections open and passes nothing on, until told otherwise.
    pub fn stall(&self) {
        self.mode.send_replace(Mode::Stall);
    }

    /// Closes all connections, and new ones at once, until told otherwise.
    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, mode: watch::Receiver<Mode>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if *mode.borrow() != Mode::Cut {
            connections.spawn(connection(client, upstream, mode.clone()));
        }
    }
}

/// Ends when either side closes or everything is cut.
async fn connection(client: TcpStream, upstream: SocketAddr, mut mode: watch::Receiver<Mode>) {
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pump(from_client, to_server, mode.clone()) => {}
        () = pump(from_server, to_client, mode.clone()) => {}
        _ = mode.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>) {
    let mut piece = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let Ok(now) = mode.wait_for(|mode| *mode != Mode::Stall).await.map(|mode| *mode) else { return };
        if let Mode::Delay(wait) = now {
            tokio::time::sleep(wait).await;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
