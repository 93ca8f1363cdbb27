//! What an upstream keeps and a request goes on from: nobody but the connection that made it can.

use serde_json::value::RawValue;

use super::conversation::id;

/// An id that means something to one connection only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The caller's field that holds it.
    pub field: &'static str,
    /// The id.
    pub id: String,
}

impl Bound {
    /// A text, or an object with an `id`, in a field; empty ones and others are none.
    pub(super) fn in_field(field: &'static str, raw: Option<&RawValue>) -> Option<Self> {
        let id = id(raw?)?.into_owned();
        (!id.is_empty()).then_some(Self { field, id })
    }
}
