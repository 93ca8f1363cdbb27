//! The images that one request names by URL: fetched once, for the first rung that wants them inline.

use std::sync::Arc;

use futures_util::future::try_join_all;
use shared::config::{ImageFetch, Images as Rules};
use tokio::sync::OnceCell;

use crate::dialect::Dialect;
use crate::dialect::images::Images;
use crate::dialect::wanted::Wanted;
use crate::error::BadRequest;
use crate::upstream::images::Fetcher;

/// The most images of one request.
const IMAGES_MAX: usize = 8;

/// The images of one request.
#[derive(Debug)]
pub struct Pictures<'a> {
    fetcher: &'a Fetcher,
    rules: &'a Rules,
    fetched: OnceCell<Result<Arc<Images>, BadRequest>>,
}

impl<'a> Pictures<'a> {
    /// Nothing is fetched yet.
    pub fn new(fetcher: &'a Fetcher, rules: &'a Rules) -> Self {
        Self { fetcher, rules, fetched: OnceCell::new() }
    }

    /// What an upstream of this dialect wants inline; nothing when fetching is off. An image that cannot be had is the caller's
    /// fault, with its field.
    pub async fn inline(&self, wanted: &Wanted, to: Dialect) -> Result<Arc<Images>, BadRequest> {
        if self.rules.fetch == ImageFetch::Off {
            return Ok(Arc::default());
        }
        let urls = wanted.needs_images(to);
        if urls.is_empty() {
            return Ok(Arc::default());
        }
        // All dialects that want images inline want the same ones.
        self.fetched.get_or_init(|| self.fetch(wanted, urls)).await.clone()
    }

    async fn fetch(&self, wanted: &Wanted, urls: Vec<String>) -> Result<Arc<Images>, BadRequest> {
        if let Some(url) = urls.get(IMAGES_MAX) {
            return Err(wanted.unfetched(url, &format!("a request may name {IMAGES_MAX} images by URL at most")));
        }
        let fetches = urls.into_iter().map(|url| async move {
            match self.fetcher.fetch(&url, self.rules).await {
                Ok(image) => Ok((url, image)),
                Err(error) => Err(wanted.unfetched(&url, &error.to_string())),
            }
        });
        let mut images = Images::default();
        for (url, image) in try_join_all(fetches).await? {
            images.add(url, image.mime, &image.bytes);
        }
        Ok(Arc::new(images))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use serde_json::json;
    use shared::config::ByteSize;

    use super::*;
    use crate::dialect::Api;
    use crate::dialect::wanted::{Entry, Found};
    use crate::upstream::images::tests::{PNG, serve};

    fn rules(fetch: ImageFetch) -> Rules {
        Rules { fetch, size: ByteSize(1 << 10), timeout: Duration::from_secs(5) }
    }

    fn naming(urls: impl IntoIterator<Item = String>) -> Wanted {
        let content: Vec<_> =
            urls.into_iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}})).collect();
        let body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
        Wanted::read(Entry::at(Api::Chat), Bytes::from(body.to_string())).unwrap()
    }

    #[tokio::test]
    async fn with_fetch_off_the_refusal_stays_and_nobody_is_asked() {
        let (fetcher, rules) = (Fetcher::unguarded(), rules(ImageFetch::Off));
        let server = serve("200 OK", "content-type: image/png\r\n", PNG).await;
        let wanted = naming([server.url.clone()]);
        let images = Pictures::new(&fetcher, &rules).inline(&wanted, Dialect::Gemini).await.unwrap();
        let found = Found { images, ..Found::default() };
        let bad = wanted.call(Dialect::Gemini, "g", "r", &found).unwrap_err();
        assert!(bad.message.contains("are not fetched"), "{}", bad.message);
        assert_eq!(server.asked(), 0);
    }

    #[tokio::test]
    async fn images_are_fetched_once_for_all_attempts() {
        let (fetcher, rules) = (Fetcher::unguarded(), rules(ImageFetch::Https));
        let server = serve("200 OK", "content-type: image/png\r\n", PNG).await;
        let wanted = naming([server.url.clone()]);
        let pictures = Pictures::new(&fetcher, &rules);
        for to in [Dialect::Gemini, Dialect::CodeAssist] {
            let found = Found { images: pictures.inline(&wanted, to).await.unwrap(), ..Found::default() };
            assert!(wanted.call(to, "g", "r", &found).is_ok());
        }
        assert_eq!(server.asked(), 1);
    }

    #[tokio::test]
    async fn one_image_too_many_is_refused_before_any_is_fetched() {
        let (fetcher, rules) = (Fetcher::unguarded(), rules(ImageFetch::Https));
        let server = serve("200 OK", "content-type: image/png\r\n", PNG).await;
        let wanted = naming((0..=IMAGES_MAX).map(|nth| format!("{}?{nth}", server.url)));
        let bad = Pictures::new(&fetcher, &rules).inline(&wanted, Dialect::Gemini).await.unwrap_err();
        assert_eq!(bad.field.as_deref(), Some("messages.0.content.8.image_url.url"));
        assert_eq!(server.asked(), 0);
    }
}
