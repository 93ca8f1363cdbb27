//! Whether images behind a URL are fetched for upstreams that want them inline.

use std::time::Duration;

use super::limits::above_zero;
use super::reader::Reader;
use super::scalar::{ByteSize, words};
use super::section::section;

words! {
    /// Which images behind a URL are fetched.
    pub enum ImageFetch {
        /// None: 400 where the upstream wants them inline.
        Off = "off",
        /// Those behind https at public addresses.
        Https = "https",
    }
}

section! {
    /// Images behind a URL.
    pub struct Images, draft ImagesDraft, check check {
        /// Which are fetched for upstreams that want them inline.
        fetch: ImageFetch = "off",
        /// The largest image that is fetched.
        size: ByteSize = "10MiB",
        /// Until an image is here, whole.
        timeout: Duration = "5s",
    }
}

fn check(draft: &ImagesDraft, reader: &mut Reader<'_>) {
    above_zero(&draft.timeout, reader);
}
