//! fake upstream.
fn main() {}
