//! What each caller's request becomes for each upstream.

use std::fmt::Write as _;

use gateway::dialect::Dialect;
use gateway::dialect::wanted::Found;
use gateway::dialect::wanted::UpstreamCall;
use serde_json::{Map, Value, json};

use super::callers::{Caller, REQUEST};
use super::golden::compare;
use super::upstreams::{UPSTREAMS, model};

fn shown(call: &UpstreamCall) -> Value {
    let headers: Map<String, Value> =
        call.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().into())).collect();
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    json!({"path": call.path, "headers": headers, "body": body})
}

fn calls(caller: Caller, upstream: Dialect) -> String {
    let mut text = String::new();
    for name in caller.requests().keys() {
        let made = match caller.wanted(name).call(upstream, model(upstream), REQUEST, &Found::default()) {
            Ok(call) => shown(&call),
            Err(bad) => json!({"refused": {"field": bad.field, "message": bad.message}}),
        };
        writeln!(text, "== {name}\n{}", serde_json::to_string_pretty(&made).unwrap()).unwrap();
    }
    text
}

#[test]
fn every_request_becomes_what_it_did_for_every_upstream() {
    for caller in Caller::APIS {
        for upstream in UPSTREAMS {
            compare(&format!("requests/{}_to_{}.txt", caller.name(), upstream.as_str()), &calls(caller, upstream));
        }
    }
}

#[test]
fn the_same_request_becomes_the_same_bytes_every_time() {
    for caller in Caller::APIS {
        for upstream in UPSTREAMS {
            let made =
                || caller.wanted("tools").call(upstream, model(upstream), REQUEST, &Found::default()).unwrap().body;
            assert_eq!(made(), made(), "{caller:?} to {upstream:?}");
        }
    }
}
