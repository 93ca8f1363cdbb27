//! Every name a file declares.
#[derive(Debug, Default)]
pub(super) struct Names;
