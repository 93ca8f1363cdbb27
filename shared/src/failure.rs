//! What a failure means.
