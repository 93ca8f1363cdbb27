//! Why an answer ended, in the words of this dialect, both ways.

use crate::canonical::response::Finish;

/// What a `stop_reason` means. A paused turn and an unknown reason are an end like any other.
pub(super) fn read(stop_reason: &str, stop_sequence: Option<&str>) -> Finish {
    match stop_reason {
        "stop_sequence" => Finish::StopText(stop_sequence.map(str::to_owned)),
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::Refused,
        _ => Finish::Stop,
    }
}

/// `stop_reason` and `stop_sequence`. An answer that calls functions waits for their results, whatever the upstream called it.
pub(super) fn written(finish: &Finish, calls: Calls) -> (&'static str, Option<&str>) {
    match (finish, calls) {
        (Finish::ToolCalls, _) | (Finish::Stop, Calls::Some) => ("tool_use", None),
        (Finish::Stop, Calls::None) => ("end_turn", None),
        (Finish::StopText(text), _) => ("stop_sequence", text.as_deref()),
        (Finish::Length, _) => ("max_tokens", None),
        (Finish::Filtered | Finish::Refused, _) => ("refusal", None),
    }
}

/// Whether an answer calls functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// It does not.
    None,
    /// It does.
    Some,
}
