//! What can be told from a model's name.

use crate::dialect::anthropic::request::{Sampling, Target, ThinkingForm};

#[test]
fn a_claude_after_4_6_refuses_sampling_and_thinks_by_itself() {
    let (old, new) = ((Sampling::Taken, ThinkingForm::Budget), (Sampling::Refused, ThinkingForm::Adaptive));
    for (model, expected) in [
        ("claude-3-5-haiku-20241022", old),
        ("claude-3-opus@20240229", old),
        ("claude-opus-4-20250514", old),
        ("claude-opus-4-1", old),
        ("claude-opus-4.6", old),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", old),
        ("claude-opus-4-7", new),
        ("claude-sonnet-5-5", new),
        ("claude-sonnet-5", new),
        ("vertex/claude-haiku-5-20270101", new),
        ("claude-mythos-preview", new),
        ("claude", new),
        ("kimi-k3", old),
        ("glm-6", old),
        ("", old),
    ] {
        let target = Target::of_model(model);
        assert_eq!((target.sampling, target.thinking), expected, "{model}");
    }
}
