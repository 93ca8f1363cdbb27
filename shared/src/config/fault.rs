//! What is wrong with a file, and where.

use std::fmt;

/// One thing the file may not say. Never holds the value of a secret or of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file as it was named to us.
    pub file: String,
    /// Line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// Column in characters, from 1; 0 when the file as a whole is meant.
    pub column: usize,
    /// The field as a dotted path, `connections[1].rpm`; empty for the file itself.
    pub field: String,
    /// What was found.
    pub message: String,
    /// What was expected; empty when the message says it all.
    pub expected: String,
}

/// Something the file may say, but hardly means. Does not stop Headgate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The file as it was named to us.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The field as a dotted path.
    pub field: String,
    /// What looks odd.
    pub message: String,
}

/// `file:line:column: field: message, expected ...`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        start(f, &self.file, (self.line, self.column), &self.field)?;
        f.write_str(&self.message)?;
        if self.expected.is_empty() { Ok(()) } else { write!(f, ", expected {}", self.expected) }
    }
}

impl std::error::Error for Fault {}

/// `file:line:column: field: notice: message`.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        start(f, &self.file, (self.line, self.column), &self.field)?;
        write!(f, "notice: {}", self.message)
    }
}

fn start(f: &mut fmt::Formatter<'_>, file: &str, (line, column): (usize, usize), field: &str) -> fmt::Result {
    f.write_str(file)?;
    if line > 0 {
        write!(f, ":{line}:{column}")?;
    }
    f.write_str(": ")?;
    if field.is_empty() { Ok(()) } else { write!(f, "{field}: ") }
}

/// All faults, one a line, as `headgate check` prints them.
pub fn report(faults: &[Fault]) -> String {
    use fmt::Write as _;
    faults.iter().fold(String::new(), |mut report, fault| {
        let _ = writeln!(report, "{fault}");
        report
    })
}
