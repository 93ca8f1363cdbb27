//! What a connection proves itself with: a key, a file with a key, a Google refresh token.

use secrecy::SecretString;
use serde_json::Value as Json;

use super::reader::{Reader, Value};
use super::scalar::{Scalar, any_text_schema};
use super::section::section;
use super::text::BaseUrl;
use super::yaml::Node;

/// What a connection proves itself with.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A key or bearer token.
    ApiKey(SecretString),
    /// A Google refresh token, exchanged for access tokens.
    GoogleOauth(GoogleOauth),
}

section! {
    /// A Google refresh token and where it is exchanged for access tokens.
    pub struct GoogleOauth, draft GoogleOauthDraft {
        /// The refresh token.
        refresh_token: SecretString = required,
        /// The OAuth client.
        client_id: SecretString = required,
        /// The OAuth client's secret.
        client_secret: SecretString = required,
        /// Where tokens are exchanged.
        token_url: BaseUrl = "https://oauth2.googleapis.com/token",
    }
}

/// A credential read from a file.
#[derive(Debug, Clone)]
pub(super) struct KeyFile(pub(super) SecretString);

/// The largest file that is read for a credential.
const KEY_FILE_MAX: usize = 64 << 10;

impl Value for KeyFile {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let expected = "the path of a readable file";
        let path = reader.text(node, expected)?;
        match std::fs::read(reader.folder.join(path.value)) {
            Err(error) => reader.fault_here(node.at, format!("the file cannot be read ({})", error.kind()), expected),
            Ok(bytes) if bytes.len() > KEY_FILE_MAX => reader.fault_here(node.at, "the file is too large", "one key"),
            Ok(bytes) => {
                let key = std::str::from_utf8(&bytes).ok().and_then(|text| SecretString::parse(text.trim()));
                match key {
                    Some(key) => return Some(Self(key)),
                    None => reader.fault_here(node.at, "the file's content does not fit", SecretString::expected()),
                }
            }
        }
        None
    }
    fn schema() -> Json {
        any_text_schema("a path")
    }
}
