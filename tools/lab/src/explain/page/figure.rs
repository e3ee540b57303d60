//! A drawing as it stands on the page: with words for those who cannot see it, and its numbers.

use super::escape::{escape, of_address};

/// Something drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// What it shows.
    pub title: String,
    /// The same as in the drawing, in words.
    pub words: String,
    /// Its numbers.
    pub csv: String,
    /// The drawing, which carries its words with it.
    pub svg: String,
}

/// Puts a drawing on the page; `name` is for the file of its numbers.
pub fn put(page: &mut String, name: &str, index: usize, drawing: &Drawing) {
    let Drawing { title, csv, svg, .. } = drawing;
    debug_assert!(svg.contains(&escape(&drawing.words)), "the words are for those who cannot see it");
    let file: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    page.push_str(&format!(
        "<figure>\n{svg}<figcaption>{}</figcaption>\n<details><summary>The numbers</summary>\n<pre>{}</pre>\n\
         <a download=\"{file}-{index}.csv\" href=\"data:text/csv;charset=utf-8,{}\">as CSV</a></details>\n</figure>\n",
        escape(title),
        escape(csv),
        of_address(csv),
    ));
}
