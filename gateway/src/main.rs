//! headgate.
fn main() {}
