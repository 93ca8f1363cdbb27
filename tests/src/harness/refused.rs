//! An address where connections are refused.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port that is held and at which nobody listens, until it is dropped.
#[derive(Debug)]
pub struct Refused {
    address: SocketAddr,
    _held: TcpSocket,
}

impl Refused {
    /// On a port the OS chooses.
    pub fn hold() -> Self {
        let held = TcpSocket::new_v4().expect("a socket");
        held.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address = held.local_addr().expect("a bound address");
        Self { address, _held: held }
    }

    /// The base URL of an upstream that is down.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
