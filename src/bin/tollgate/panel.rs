//! Pictures of panels one below the other: what was offered, what was admitted, and the bound.

use std::error::Error;
use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::failure::Failure;

const WIDTH: u32 = 960;
const HEAD: u32 = 56;
const HEIGHT: u32 = 190;

const OFFERED: RGBColor = RGBColor(190, 190, 196);
const ADMITTED: RGBColor = RGBColor(31, 119, 180);
const BOUND: RGBColor = RGBColor(200, 40, 40);

/// One diagram. Points are in the order of x, and `offered` has one at least.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) offered: Vec<(f64, f64)>,
    pub(crate) admitted: Vec<(f64, f64)>,
    /// A level that should not be passed.
    pub(crate) bound: Option<f64>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The picture as SVG. `label` names a place on the x axis.
pub(crate) fn draw(
    panels: &[Panel],
    caption: &str,
    label: &dyn Fn(f64) -> String,
) -> Result<String, Box<dyn Error>> {
    let mut picture = String::new();
    let height = HEAD + HEIGHT * u32::try_from(panels.len())?;
    {
        let root = SVGBackend::with_string(&mut picture, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, body) = root.split_vertically(HEAD);
        draw_head(&head, caption, panels.iter().any(|panel| panel.bound.is_some()))?;
        for (area, panel) in body.split_evenly((panels.len(), 1)).iter().zip(panels) {
            draw_panel(area, panel, label)?;
        }
        root.present()?;
    }
    Ok(picture)
}

/// What the picture shows, and what its colours mean.
fn draw_head(area: &Area<'_>, caption: &str, bound: bool) -> Result<(), Box<dyn Error>> {
    let font = ("sans-serif", 15).into_font();
    area.draw(&Text::new(caption.to_owned(), (16, 8), font.clone()))?;
    for (x, colour, name) in [(16, OFFERED, "offered"), (116, ADMITTED, "admitted")] {
        area.draw(&Rectangle::new([(x, 34), (x + 18, 46)], colour.filled()))?;
        area.draw(&Text::new(name, (x + 24, 32), font.clone()))?;
    }
    if bound {
        area.draw(&PathElement::new([(224, 40), (242, 40)], BOUND.stroke_width(2)))?;
        area.draw(&Text::new("limit", (248, 32), font))?;
    }
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    panel: &Panel,
    label: &dyn Fn(f64) -> String,
) -> Result<(), Box<dyn Error>> {
    let ends = |points: &[(f64, f64)]| Some((points.first()?.0, points.last()?.0));
    let (from, to) = ends(&panel.offered).ok_or("nothing to draw")?;
    let top = panel.offered.iter().map(|point| point.1).fold(panel.bound.unwrap_or(1.0), f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(6)
        .margin_right(40)
        .x_label_area_size(26)
        .y_label_area_size(72)
        .build_cartesian_2d(from..to, 0.0..top * 1.08)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(8)
        .y_labels(5)
        .x_label_formatter(&|x| label(*x))
        .y_label_formatter(&|y| units(*y))
        .label_style(("sans-serif", 13))
        .draw()?;
    let area = |points: &[(f64, f64)], colour: RGBColor| {
        AreaSeries::new(points.to_vec(), 0.0, colour.filled())
    };
    chart.draw_series(area(&panel.offered, OFFERED))?;
    chart.draw_series(area(&panel.admitted, ADMITTED))?;
    if let Some(bound) = panel.bound {
        chart.draw_series(LineSeries::new([(from, bound), (to, bound)], BOUND.stroke_width(2)))?;
    }
    Ok(())
}

/// Short enough for the margin.
fn units(units: f64) -> String {
    for (size, name) in [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")] {
        if units >= size {
            let size = if name == "k" { 1e3 } else { size };
            return format!("{} {name}", (units / size * 100.0).round() / 100.0);
        }
    }
    format!("{units}")
}

/// Writes it at once: nothing that ends the program earlier leaves half a picture.
pub(crate) fn save(path: &Path, picture: &str) -> Result<(), Failure> {
    fs::write(path, picture)
        .map_err(|error| Failure::new(format_args!("{}: {error}", path.display())))
}
