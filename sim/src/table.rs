//! A table, as text or Markdown.

use std::fmt::Write as _;

/// Cells under a head, each row as wide as the head.
#[derive(Clone, Debug)]
pub struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows.
    #[must_use]
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        Self { title: title.into(), rows: vec![head.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns it with columns of spaces, for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.rows[0].len()).map(|column| self.width(column)).collect();
        let mut text = format!("{}\n\n", self.title);
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Names to the left, numbers to the right.
                let _ = if column == 0 { write!(line, "{cell:<width$}") } else { write!(line, "  {cell:>width$}") };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns it as Markdown, below a heading.
    #[must_use]
    pub fn markdown(&self) -> String {
        format!("## {}\n\n{}", self.title, self.markdown_rows())
    }

    /// Returns it as Markdown, without a heading.
    #[must_use]
    pub fn markdown_rows(&self) -> String {
        let mut text = String::new();
        for (i, row) in self.rows.iter().enumerate() {
            let _ = writeln!(text, "| {} |", row.join(" | "));
            if i == 0 {
                let _ = writeln!(text, "|---|{}", "---:|".repeat(row.len() - 1));
            }
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }
}
