//! Calls made side by side, their arguments in fragments that come in any order of the calls.

use gateway::dialect::Dialect;
use gateway::dialect::openai::names::Names;
use gateway::dialect::openai::stream::Reader;
use gateway::dialect::openai_responses::request::echo;
use gateway::dialect::openai_responses::stream::Writer;
use gateway::dialect::translate::{Cross, StreamTranslation};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::callers::{Caller, REQUEST};
use super::golden::cases;
use super::said;
use super::upstreams::{follow, values};

/// One step of a stream: a piece of text, or the next fragment of a call.
#[derive(Debug, Clone)]
enum Step {
    Text(String),
    Fragment(usize, String),
}

fn any_arguments() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-zß\"\\\\]{1,4}", "[ -~ä😀\\n]{0,12}", 0..4).prop_map(|map| json!(map))
}

/// Calls, and the steps that make them: every fragment of a call in its order, the calls in any.
fn any_stream() -> impl Strategy<Value = (Vec<Value>, Vec<Step>)> {
    let cuts = || prop::collection::vec(any::<Index>(), 0..5);
    let calls = prop::collection::vec((any_arguments(), cuts()), 1..4);
    (calls, prop::collection::vec(any::<Index>(), 24), prop::option::of("[a-zé]{1,5}")).prop_map(
        |(calls, order, text)| {
            let mut waiting: Vec<Vec<String>> =
                calls.iter().map(|(arguments, cuts)| fragments(&arguments.to_string(), cuts)).collect();
            let mut steps: Vec<Step> = text.into_iter().map(Step::Text).collect();
            // Calls begin in order; after that any may go on.
            for at in 0..waiting.len() {
                steps.push(Step::Fragment(at, String::new()));
            }
            for pick in order.iter().cycle() {
                let left: Vec<usize> = (0..waiting.len()).filter(|at| !waiting[*at].is_empty()).collect();
                let Some(at) = (!left.is_empty()).then(|| left[pick.index(left.len())]) else { break };
                let fragment = waiting[at].remove(0);
                steps.push(Step::Fragment(at, fragment));
            }
            (calls.into_iter().map(|(arguments, _)| arguments).collect(), steps)
        },
    )
}

fn fragments(text: &str, cuts: &[Index]) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(letters.len() + 1)).collect();
    at.extend([0, letters.len()]);
    at.sort_unstable();
    at.windows(2).map(|ends| letters[ends[0]..ends[1]].iter().collect()).collect()
}

fn upstream(steps: &[Step]) -> String {
    let mut begun = 0;
    let mut events = Vec::new();
    let mut chunk = |delta: Value, finish: Value| {
        let chunk =
            json!({"id": "c", "model": "up", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        events.push(format!("data: {chunk}\n\n"));
    };
    for step in steps {
        match step {
            Step::Text(text) => chunk(json!({"content": text}), Value::Null),
            Step::Fragment(at, fragment) => {
                let mut call = json!({"index": at, "function": {"arguments": fragment}});
                if *at >= begun {
                    begun += 1;
                    call["id"] = format!("call_{at}").into();
                    call["type"] = "function".into();
                    call["function"]["name"] = ["weather", "now"][at % 2].into();
                }
                chunk(json!({"tool_calls": [call]}), Value::Null);
            }
        }
    }
    chunk(json!({}), "tool_calls".into());
    format!("{}data: [DONE]\n\n", events.concat())
}

/// OpenAI answers callers of its Responses API in kind; upstreams that lack that API would be followed so.
fn translation(caller: Caller) -> Box<dyn StreamTranslation> {
    if caller == Caller::Responses {
        let reader = Reader::new(Names::of(&gateway::canonical::request::Request::default()));
        return Box::new(Cross::new(reader, Writer::new("mine", REQUEST, &echo(b"{}"))));
    }
    caller.wanted("tools").stream(Dialect::OpenAi, REQUEST)
}

proptest! {
    #![proptest_config(cases())]
    #[test]
    fn arguments_arrive_intact_however_their_fragments_interleave((calls, steps) in any_stream()) {
        let text = upstream(&steps);
        for caller in Caller::ALL {
            let followed = follow(translation(caller), [text.as_bytes()]);
            // Reading it checks that Anthropic's blocks are contiguous and OpenAI's calls are counted.
            let found = said::streamed(caller, &values(caller, followed.text()));
            let expected: Vec<(String, Value)> = calls
                .iter()
                .enumerate()
                .map(|(at, arguments)| (["weather", "now"][at % 2].to_owned(), arguments.clone()))
                .collect();
            prop_assert_eq!(found.calls, expected, "{:?}", caller);
            prop_assert_eq!(found.finish, "tool_calls", "{:?}", caller);
        }
    }
}
