//! Limits and the periods they count in.
