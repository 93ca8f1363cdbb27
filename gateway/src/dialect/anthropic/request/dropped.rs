//! What is left out when a request crosses into or out of this dialect, and why that does no harm.

/// Fields left out silently on the way to another dialect, each with its reason. Everything else that cannot be said there is refused
/// by name.
pub const DROPPED: &[(&str, &str)] = &[
    // Top-level fields.
    ("cache_control", "a hint: other upstreams cache by themselves or not at all"),
    ("service_tier", "a wish about the queue; the answer is the same"),
    ("speed", "a wish about the pace; the answer is the same"),
    ("diagnostics", "asks for a report about the cache of Anthropic"),
    ("context_management", "only shortens the context; the whole of it is sent"),
    // Fields of tools, blocks and settings.
    ("*.cache_control", "a hint: other upstreams cache by themselves or not at all"),
    ("tools.*.eager_input_streaming", "about the size of stream events only"),
    ("tools.*.defer_loading", "saves context; the tool is sent at once"),
    ("tools.*.input_examples", "illustrate the schema, which is sent"),
    ("tools.*.strict", "the schema is sent; whether it can be enforced differs between upstreams"),
    ("tools.*.allowed_callers", "only `direct` is let through, which is the default"),
    ("messages.*.content.*.citations", "on texts of the assistant: they tell where the text came from"),
    ("messages.*.content.*.caller", "only `direct` is let through, which is the default"),
    ("messages.*.content.*.transformations", "how an image is fitted to the limits of Anthropic"),
    ("messages.*.content.*.signature", "proves a thought to the upstream that made it, and to no other"),
    ("messages.*.content (thinking, redacted_thinking)", "thoughts are only for the upstream that made them"),
    ("system (x-anthropic-billing-header)", "a note of a client to Anthropic's accounting, new in each request"),
];

/// What is left out when a request of another dialect comes here, and why that does no harm.
pub const DROPPED_INTO: &[(&str, &str)] = &[
    ("thoughts of other upstreams", "their signatures are not valid here, and unsigned thoughts are refused"),
    ("thinking where a call is forced", "the two exclude each other; the forced call is the stricter wish"),
    ("thinking inside a tool loop that began without", "refused upstream: the loop would have to begin with a thought"),
    ("thinking where max output is 1,024 or less", "the smallest budget would not fit"),
    ("image detail", "images are always looked at closely"),
    ("strict of a function", "the schema is sent; whether it can be enforced differs between models"),
    ("strict and name of a JSON schema", "a schema always binds here and has no name"),
    ("bounds in a JSON schema", "moved into the description: they cannot be enforced"),
    ("temperature above 1", "becomes 1, the most there is"),
    ("neutral sampling values", "temperature 1, top_p 1 and penalties of 0 are how answers are drawn anyway"),
    ("empty texts", "refused upstream, and say nothing"),
];

/// True for a top-level field that is left out.
pub(super) fn is_dropped(field: &str) -> bool {
    DROPPED.iter().any(|(name, _)| *name == field)
}
