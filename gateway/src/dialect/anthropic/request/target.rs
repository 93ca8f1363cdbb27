//! What the model at the other end takes.

/// How a request must be written for one model of an Anthropic upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Whether it takes temperature, top_p and top_k.
    pub sampling: Sampling,
    /// How it is told to think.
    pub thinking: ThinkingForm,
    /// Whether the thoughts in the conversation are its own.
    pub thoughts: Thoughts,
    /// The most output tokens it takes, if known.
    pub max_output: Option<u64>,
}

/// Whether a model takes temperature, top_p and top_k.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// They are sent.
    Taken,
    /// Models after Opus 4.6 refuse them: a request that sets them is refused by name.
    Refused,
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingForm {
    /// By a number of tokens.
    Budget,
    /// By itself, and by a level of effort.
    Adaptive,
}

/// Whose the thoughts in the conversation are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thoughts {
    /// This upstream's own: signed and redacted ones are sent back to it.
    Own,
    /// Of others, or nobody knows: they are left out.
    Foreign,
}

impl Target {
    /// What can be told from a model's name. A Claude after 4.6 refuses sampling and thinks by itself; an older one, and any model
    /// that is no Claude, takes the classic form.
    pub fn of_model(model: &str) -> Self {
        let new = model.find("claude").is_some_and(|at| version(&model[at..]).is_none_or(|version| version > (4, 6)));
        let (sampling, thinking) =
            if new { (Sampling::Refused, ThinkingForm::Adaptive) } else { (Sampling::Taken, ThinkingForm::Budget) };
        Self { sampling, thinking, thoughts: Thoughts::Foreign, max_output: None }
    }
}

/// Major and minor version in names like `claude-opus-4-6`, `claude-sonnet-5`, `claude-3-5-haiku-20241022`, `claude-opus-4.7@…`. Dates
/// are no versions.
fn version(name: &str) -> Option<(u32, u32)> {
    let mut words = name.split(['-', '.', '@', ':', '_', '/']).skip_while(|word| number(word).is_none());
    let major = number(words.next()?)?;
    Some((major, words.next().and_then(number).unwrap_or(0)))
}

fn number(word: &str) -> Option<u32> {
    word.parse().ok().filter(|number| *number < 100)
}
