//! Tables on a terminal: columns of plain text, without lines.

use comfy_table::{Table, presets};

/// A table, each line indented; the cells of the first column begin one space further in.
pub(super) fn text<const N: usize>(indent: &str, header: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header).add_rows(rows);
    let lines: Vec<String> = table.lines().map(|line| format!("{indent}{}\n", line.trim_end())).collect();
    lines.concat()
}
