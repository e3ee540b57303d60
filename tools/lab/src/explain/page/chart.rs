//! Curves on logarithmic axes, as SVG in the page's colours.

use core::fmt::Write;

use super::escape::escape;
use super::{Drawing, colours};

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 44.0;

/// A line through points.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// Its points; both coordinates are above 0.
    pub points: Vec<(f64, f64)>,
}

/// Curves with their axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    x_name: String,
    y_name: &'static str,
    /// The curves that have points.
    pub curves: Vec<Curve>,
}

/// The powers of ten around some values, and where a value lies between them.
#[derive(Clone, Copy)]
struct Scale {
    low: i32,
    high: i32,
}

impl Scale {
    fn around(values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        let low = least.log10().floor() as i32;
        Self { low, high: (most.log10().ceil() as i32).max(low + 1) }
    }

    /// From 0 at the lower power to 1 at the upper one.
    fn place(self, value: f64) -> f64 {
        (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low)
    }

    /// The marks of the axis: powers of ten, with 2 and 5 between them while there are few.
    fn marks(self) -> Vec<f64> {
        const FEW: i32 = 3;
        let between: &[f64] = if self.high - self.low <= FEW { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let powers = self.low..=self.high;
        let marks = powers.flat_map(|power| between.iter().map(move |digit| digit * 10_f64.powi(power)));
        marks.filter(|mark| *mark <= 10_f64.powi(self.high) * 1.000_001).collect()
    }
}

impl Chart {
    /// A chart of what has points; points that have no place on a logarithmic axis are left out.
    pub fn new(title: String, x_name: String, y_name: &'static str, mut curves: Vec<Curve>) -> Self {
        let fine = |value: f64| value.is_finite() && value > 0.0;
        curves.iter_mut().for_each(|curve| curve.points.retain(|(x, y)| fine(*x) && fine(*y)));
        curves.retain(|curve| !curve.points.is_empty());
        Self { title, x_name, y_name, curves }
    }

    /// With its words and its numbers.
    pub fn drawing(&self) -> Drawing {
        Drawing {
            title: self.title.clone(),
            words: self.words(),
            csv: self.csv(),
            svg: self.svg() + &self.legend(),
        }
    }

    /// Its numbers.
    pub fn csv(&self) -> String {
        let mut csv = format!("series,{},{}\n", self.x_name, self.y_name);
        for curve in &self.curves {
            // Names have commas.
            let name = curve.name.replace('"', "'");
            for (x, y) in &curve.points {
                let _ = writeln!(csv, "\"{name}\",{x},{y}");
            }
        }
        csv
    }

    /// The chart in words.
    pub fn words(&self) -> String {
        let curve = |curve: &Curve| {
            let (first, last) = (curve.points[0], curve.points[curve.points.len() - 1]);
            format!(
                "{}: {:.3} {} at {} to {:.3} at {}",
                curve.name, first.1, self.y_name, first.0, last.1, last.0
            )
        };
        let curves: Vec<_> = self.curves.iter().map(curve).collect();
        format!("{}, both axes logarithmic. {}.", self.title, curves.join("; "))
    }

    /// The drawing.
    pub fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let (x, y) = (Scale::around(points().map(|p| p.0)), Scale::around(points().map(|p| p.1)));
        let words = escape(&self.words());
        let mut svg = format!(
            "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" aria-label=\"{words}\"><title>{}</title>\n",
            escape(&self.title)
        );
        self.axes(&mut svg, x, y);
        for (curve, look) in self.curves.iter().zip(self.looks()) {
            draw(&mut svg, curve, look, x, y);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Which line is which, as text that finds its own lines on every width.
    fn legend(&self) -> String {
        let mut legend = "<ul class=\"legend\" aria-hidden=\"true\">\n".to_owned();
        for (curve, (colour, line)) in self.curves.iter().zip(self.looks()) {
            let _ = writeln!(
                legend,
                "<li><span class=\"key k{colour} b{line}\"></span>{}</li>",
                escape(&curve.name)
            );
        }
        legend + "</ul>\n"
    }

    /// The colour of each curve, and which of the curves of that colour it is: the kind of its line.
    fn looks(&self) -> Vec<(usize, usize)> {
        let mut looks: Vec<(usize, usize)> = Vec::new();
        for curve in &self.curves {
            let colour = colours::of(&curve.name);
            let same = looks.iter().filter(|(other, _)| *other == colour).count();
            looks.push((colour, same % colours::LINES));
        }
        looks
    }

    fn axes(&self, svg: &mut String, x: Scale, y: Scale) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for mark in x.marks() {
            let at = across(x, mark);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                short(mark)
            );
        }
        for mark in y.marks() {
            let at = down(y, mark);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                short(mark)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text><text x=\"2\" y=\"12\">{}</text>",
            HEIGHT - 10.0,
            escape(&self.x_name),
            self.y_name
        );
    }
}

fn across(x: Scale, value: f64) -> f64 {
    LEFT + x.place(value) * (WIDTH - LEFT - RIGHT)
}

fn down(y: Scale, value: f64) -> f64 {
    HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM)
}

fn draw(svg: &mut String, curve: &Curve, (colour, line): (usize, usize), x: Scale, y: Scale) {
    let points: Vec<_> =
        curve.points.iter().map(|(px, py)| format!("{:.1},{:.1}", across(x, *px), down(y, *py))).collect();
    let _ = writeln!(svg, "<polyline class=\"c{colour} d{line}\" points=\"{}\"/>", points.join(" "));
    for (px, py) in &curve.points {
        let _ = write!(
            svg,
            "<circle class=\"c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
            across(x, *px),
            down(y, *py)
        );
    }
}

/// A mark in few letters.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{}G", v / 1e9),
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e3 => format!("{}k", v / 1e3),
        v if v >= 1.0 => format!("{v}"),
        v => format!("{:.*}", (-v.log10()).ceil() as usize, v),
    }
}
