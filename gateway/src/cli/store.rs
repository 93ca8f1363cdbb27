//! The store that a configuration names, for commands that go straight to Redis.

use std::path::PathBuf;

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use shared::config::{self, Config, RedisUrl};
use shared::ids::ReplicaId;
use shared::state::Store;
use shared::state::link::Link;

use super::ConfigFile;
use crate::startup::{StartError, without_credentials};

/// Opens that of a configuration file and asks once.
pub(super) async fn open(file: &ConfigFile) -> anyhow::Result<Store> {
    of(&config::load(&file.config).map_err(|faults| StartError::Config(config::report(&faults)))?).await
}

/// Opens it and asks once. A managed Redis is that of the replica here, which must run.
pub(super) async fn of(config: &Config) -> anyhow::Result<Store> {
    let url = match &config.redis.url {
        RedisUrl::Url(url) => url.expose_secret().to_owned(),
        RedisUrl::Managed => managed()?,
    };
    let failed = |source| StartError::Redis { at: without_credentials(&url), source };
    let link = Link::open(&url, config.redis.timeout, 1).map_err(failed)?;
    link.ping().await.map_err(failed)?;
    Ok(Store::new(link, config.redis.prefix.as_str(), ReplicaId::fresh()))
}

/// The socket of the Redis that a replica with the same data folder manages.
fn managed() -> anyhow::Result<String> {
    let dir = std::env::var_os("HEADGATE_DATA_DIR").map_or_else(|| PathBuf::from("data"), PathBuf::from);
    let socket = std::path::absolute(dir.join("redis").join("redis.sock")).context("redis.url: managed")?;
    Ok(format!("redis+unix://{}", socket.display()))
}
