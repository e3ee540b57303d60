//! Figures of rounds, in a row for each thing that is measured.

#[derive(Default)]
pub struct Rows(Vec<(String, Vec<f64>)>);

impl Rows {
    /// What a round found.
    pub fn add(&mut self, name: &str, figure: f64) {
        match self.0.iter_mut().find(|(of, _)| of == name) {
            Some((_, figures)) => figures.push(figure),
            None => self.0.push((name.to_owned(), vec![figure])),
        }
    }

    pub fn print(&self, title: &str) {
        println!("{title}:");
        for (name, figures) in &self.0 {
            let figures: String = figures.iter().map(|figure| format!(" {figure:8.1}")).collect();
            println!("{name:40}{figures}");
        }
    }
}
