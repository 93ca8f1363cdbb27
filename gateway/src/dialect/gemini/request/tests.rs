use serde_json::Value;

mod crossing;
mod peeking;
mod reading;
mod writing;

pub(in super::super) use reading::any_json;

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}
