use proptest::prelude::*;
use serde_json::{Map, json};

use super::super::*;
use crate::canonical::request::*;

fn any_part(role: Role) -> BoxedStrategy<Part> {
    let text = "\\PC{1,12}".prop_map(Part::Text);
    let media = ("image/png|application/pdf", "[A-Za-z0-9+/]{4}").prop_map(|(mime, data)| {
        let is_image = mime.starts_with("image/");
        let media = Media { source: Source::Inline { mime, data }, name: None, detail: None };
        if is_image { Part::Image(media) } else { Part::File(media) }
    });
    if role == Role::User {
        return prop_oneof![text, media].boxed();
    }
    let call = ("[a-z]{1,5}", "\\PC{0,8}", prop::option::of("[A-Za-z0-9]{8}")).prop_map(|(name, said, signature)| {
        let arguments = Map::from_iter([("snake_case".to_owned(), json!({"any_of": said}))]);
        Part::ToolCall(ToolCall { id: String::new(), name, arguments, signature })
    });
    prop_oneof![text, call].boxed()
}

/// Turns that alternate, their calls answered in order.
fn any_conversation() -> impl Strategy<Value = Vec<Turn>> {
    let pair = (
        prop::collection::vec(any_part(Role::User), 1..4),
        prop::collection::vec(any_part(Role::Assistant), 1..4),
        "\\PC{0,8}",
    );
    prop::collection::vec(pair, 1..4).prop_map(|pairs| {
        let mut turns: Vec<Turn> = Vec::new();
        let mut results: Vec<Part> = Vec::new();
        for (nth, (asked, mut said, answer)) in pairs.into_iter().enumerate() {
            turns.push(Turn { role: Role::User, parts: results.drain(..).chain(asked).collect() });
            for (place, part) in said.iter_mut().enumerate() {
                let Part::ToolCall(call) = part else { continue };
                call.id = format!("call_{nth}_{place}");
                let content = vec![Part::Text(format!("r{answer}"))];
                let (id, name) = (call.id.clone(), call.name.clone());
                results.push(Part::ToolResult(ToolResult { id, name, content, outcome: ToolOutcome::Ok }));
            }
            turns.push(Turn { role: Role::Assistant, parts: said });
        }
        turns
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(turns in any_conversation(), model in "gemini-2.5-pro|gemini-3-pro") {
        let request = Request { system: vec!["s".into()], turns, ..Request::default() };
        let body = write(&request, &model).unwrap();
        prop_assert_eq!(read(&body, Answer::Whole).unwrap(), request);
    }
}
