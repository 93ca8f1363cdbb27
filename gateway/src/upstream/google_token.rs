//! Access tokens for a Google refresh token: fetched when needed, kept until shortly before they expire, never written anywhere.

use std::time::Duration;

use http::HeaderValue;
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use shared::failure::Transport;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::Client;

/// A token is fetched anew so long before it expires.
const EARLY: Duration = Duration::from_secs(60);

/// One refresh token and the access token it last gave.
#[derive(Debug)]
pub struct TokenSource {
    url: Url,
    form: SecretString,
    current: Mutex<Option<(HeaderValue, Instant)>>,
}

/// Why there is no access token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token server refused the refresh token: a person must act.
    #[error("the token server refuses the refresh token (status {0})")]
    Refused(u16),
    /// It could not be asked, or answered nonsense.
    #[error("the token server does not answer")]
    Away,
}

impl From<Transport> for TokenError {
    fn from(_: Transport) -> Self {
        Self::Away
    }
}

#[derive(Deserialize)]
struct Granted {
    access_token: SecretString,
    #[serde(default)]
    expires_in: u64,
}

impl TokenSource {
    /// A source that was not asked yet.
    pub fn new(url: Url, refresh_token: &SecretString, client_id: &SecretString, client_secret: &SecretString) -> Self {
        let mut form = url.clone();
        form.set_query(None);
        form.query_pairs_mut()
            .append_pair("grant_type", "refresh_token")
            .append_pair("refresh_token", refresh_token.expose_secret())
            .append_pair("client_id", client_id.expose_secret())
            .append_pair("client_secret", client_secret.expose_secret());
        let form = form.query().unwrap_or_default().to_owned().into();
        Self { url, form, current: Mutex::new(None) }
    }

    /// The `authorization` header of the moment. Callers that meet here wait for one exchange.
    pub async fn header(&self, client: &Client) -> Result<HeaderValue, TokenError> {
        let mut current = self.current.lock().await;
        if let Some((header, until)) = &*current
            && Instant::now() < *until
        {
            return Ok(header.clone());
        }
        let response = client.post_form(self.url.clone(), self.form.expose_secret()).await?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(if (400..500).contains(&status) && status != 429 {
                TokenError::Refused(status)
            } else {
                TokenError::Away
            });
        }
        let granted: Granted = response.json().await.map_err(|_| TokenError::Away)?;
        let mut header = HeaderValue::from_str(&format!("Bearer {}", granted.access_token.expose_secret()))
            .map_err(|_| TokenError::Away)?;
        header.set_sensitive(true);
        let lives = Duration::from_secs(granted.expires_in).saturating_sub(EARLY);
        *current = Some((header.clone(), Instant::now() + lives));
        Ok(header)
    }

    /// The upstream did not take the token: the next call fetches another.
    pub async fn forget(&self) {
        *self.current.lock().await = None;
    }
}
