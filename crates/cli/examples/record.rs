//! Records a program on a terminal as a picture that moves: `record OUT.svg COLUMNSxLINES PROGRAM [ARGUMENT]...`
//!
//! The picture is a film: one frame below the other, moved behind a window of one frame's height. It has no script,
//! asks nothing of anybody, and shows its end where nothing may move. It begins with its end, too: many see only the
//! first moment.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use terminal::Terminal;

#[path = "../tests/e2e/terminal.rs"]
#[allow(dead_code, reason = "a test needs more of a terminal than a recording")]
mod terminal;

/// How often the terminal is looked at.
const LOOK: Duration = Duration::from_millis(40);
/// Frames that are closer together become one; more so when there are too many of them.
const APART: Duration = Duration::from_millis(160);
const FRAMES_MAX: usize = 90;
/// How long the end stays before it begins again.
const END: Duration = Duration::from_secs(8);
/// How long the end is seen before it begins for the first time.
const POSTER: Duration = Duration::from_secs(3);
/// A README that is read on a train has to load it.
const BYTES_MAX: usize = 100_000;

/// Size of a letter and of a line, and the room around all of them.
const LETTER: u32 = 8;
const LINE: u32 = 17;
const EDGE: u32 = 14;
/// The command stands above what it prints.
const HEAD: u32 = 2 * LINE;

/// Letters that look alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    column: u16,
    columns: u16,
    text: String,
    class: String,
}

type Row = Vec<Run>;
type Frame = (Duration, Vec<Row>);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, size, program, arguments @ ..] = arguments.as_slice() else {
        return Err("usage: record OUT.svg COLUMNSxLINES PROGRAM [ARGUMENT]...".into());
    };
    let (columns, lines) = size.split_once('x').ok_or("the size is like 100x28")?;
    let size = (columns.parse()?, lines.parse()?);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let frames = thinned(record(program, &arguments, size)?);
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let command = std::iter::once(&*name).chain(arguments).collect::<Vec<_>>().join(" ");
    let svg = draw(&command, &frames, size);
    if svg.len() > BYTES_MAX {
        return Err(format!("{} frames take {} bytes, more than {BYTES_MAX}", frames.len(), svg.len()).into());
    }
    std::fs::write(out, &svg)?;
    println!("{out}: {} frames, {} bytes", frames.len(), svg.len());
    Ok(())
}

/// What the terminal showed, and when, until the program ended.
fn record(program: &str, arguments: &[&str], size: (u16, u16)) -> Result<Vec<Frame>, Box<dyn Error>> {
    let mut terminal = Terminal::start(program, arguments, &[], size);
    let begun = Instant::now();
    let mut frames: Vec<Frame> = Vec::new();
    loop {
        let code = terminal.exit_code();
        let rows = rows(&terminal.screen(), size);
        let is_first = frames.is_empty();
        if is_first && code.is_none() && rows.iter().all(Vec::is_empty) {
            // Nothing is there yet.
        } else if is_first || frames.last().is_some_and(|(_, last)| *last != rows) {
            frames.push((begun.elapsed(), rows));
        } else if let Some(code) = code {
            return if code == 0 {
                Ok(frames)
            } else {
                Err(format!("it ended with {code}:\n{}", terminal.text()).into())
            };
        }
        std::thread::sleep(LOOK);
    }
}

fn rows(screen: &vt100::Screen, (columns, lines): (u16, u16)) -> Vec<Row> {
    (0..lines)
        .map(|line| {
            let mut row: Row = Vec::new();
            for column in 0..columns {
                let Some(cell) = screen.cell(line, column).filter(|cell| !cell.is_wide_continuation()) else {
                    continue;
                };
                let wide = if cell.is_wide() { 2 } else { 1 };
                let text = if cell.has_contents() { cell.contents() } else { " " };
                let class = class(cell);
                match row.last_mut().filter(|run| run.class == class) {
                    Some(run) => {
                        run.text.push_str(text);
                        run.columns += wide;
                    }
                    None => row.push(Run { column, columns: wide, text: text.to_owned(), class }),
                }
            }
            // What is not there need not be drawn.
            if let Some(last) = row.last_mut().filter(|run| !run.class.contains('i')) {
                last.text.truncate(last.text.trim_end().len());
                last.columns = last.text.chars().count() as u16;
            }
            row.retain(|run| !run.text.trim().is_empty() || run.class.contains('i'));
            row
        })
        .collect()
}

/// Classes of the style sheet: `b` bold, `d` dim, `i` inverse, and the colour.
fn class(cell: &vt100::Cell) -> String {
    let mut class = Vec::new();
    for (is, name) in [(cell.bold(), "b"), (cell.dim(), "d"), (cell.inverse(), "i")] {
        class.extend(is.then(|| name.to_owned()));
    }
    if let vt100::Color::Idx(colour @ 1..=15) = cell.fgcolor() {
        class.push(format!("c{}", (colour - 1) % 8 + 1));
    }
    class.join(" ")
}

/// Without frames that nobody could follow.
fn thinned(frames: Vec<Frame>) -> Vec<Frame> {
    let mut apart = APART;
    loop {
        let mut kept: Vec<Frame> = Vec::new();
        for (at, rows) in &frames {
            match kept.last_mut() {
                Some((last, shown)) if *at - *last < apart => *shown = rows.clone(),
                _ => kept.push((*at, rows.clone())),
            }
        }
        if kept.len() <= FRAMES_MAX {
            return kept;
        }
        apart = apart.mul_f64(1.2);
    }
}

fn draw(command: &str, frames: &[Frame], (columns, lines): (u16, u16)) -> String {
    let (wide, high) = (u32::from(columns) * LETTER, u32::from(lines) * LINE);
    let (width, height) = (wide + 2 * EDGE, high + 2 * EDGE + HEAD);
    let all = frames.last().map_or(END, |(at, _)| *at + END).as_secs_f64();
    let end = (frames.len().max(1) as u32 - 1) * high;
    let ahead = all - POSTER.as_secs_f64();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\"><title>{} in a terminal</title><style>\
         text{{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d5d9e0;white-space:pre}}\
         .b{{font-weight:700}}.d{{fill:#8a93a3}}.c1{{fill:#ff7b72}}.c2{{fill:#56d364}}.c3{{fill:#e3b341}}.c4{{fill:#79b8ff}}\
         .c5{{fill:#d2a8ff}}.c6{{fill:#56d4dd}}.c7{{fill:#d5d9e0}}.c8{{fill:#8a93a3}}rect.i{{fill:#d5d9e0}}text.i{{fill:#14171c}}\
         .film{{transform:translateY(-{end}px);animation:film {all:.2}s step-end -{ahead:.2}s infinite}}@keyframes film{{",
        escaped(command)
    );
    for (at, (moment, _)) in frames.iter().enumerate() {
        // The first frame is there from the beginning, whenever it came.
        let moment = if at == 0 { 0.0 } else { moment.as_secs_f64() };
        let _ = write!(svg, "{:.2}%{{transform:translateY(-{}px)}}", moment / all * 100.0, at as u32 * high);
    }
    svg.push_str("}@media(prefers-reduced-motion:reduce){.film{animation:none}}</style><defs>");
    let mut known: BTreeMap<&Row, usize> = BTreeMap::new();
    for row in frames.iter().flat_map(|(_, rows)| rows).filter(|row| !row.is_empty()) {
        let number = known.len();
        if let std::collections::btree_map::Entry::Vacant(place) = known.entry(row) {
            place.insert(number);
            let _ = write!(svg, "<g id=\"r{number}\">");
            row.iter().for_each(|run| draw_run(&mut svg, run));
            svg.push_str("</g>");
        }
    }
    let _ = write!(
        svg,
        "</defs><rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#14171c\" stroke=\"#3a4250\"/>\
         <text x=\"{EDGE}\" y=\"{}\"><tspan class=\"c2\">$</tspan> <tspan class=\"b\">{}</tspan></text>\
         <svg x=\"{EDGE}\" y=\"{}\" width=\"{wide}\" height=\"{high}\"><g class=\"film\">",
        EDGE + 13,
        escaped(command),
        EDGE + HEAD
    );
    for (at, (_, rows)) in frames.iter().enumerate() {
        for (line, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
            let y = at as u32 * high + line as u32 * LINE;
            let _ = write!(svg, "<use href=\"#r{}\" y=\"{y}\"/>", known[row]);
        }
    }
    svg.push_str("</g></svg></svg>\n");
    svg
}

fn draw_run(svg: &mut String, run: &Run) {
    let (x, long) = (u32::from(run.column) * LETTER, u32::from(run.columns) * LETTER);
    if run.class.contains('i') {
        let _ = write!(svg, "<rect class=\"i\" x=\"{x}\" width=\"{long}\" height=\"{LINE}\"/>");
    }
    let class = if run.class.is_empty() { String::new() } else { format!(" class=\"{}\"", run.class) };
    // Whatever the font is, columns stay columns.
    let _ = write!(svg, "<text x=\"{x}\" y=\"13\" textLength=\"{long}\"{class}>{}</text>", escaped(&run.text));
}

fn escaped(text: &str) -> String {
    // Spaces at the beginning of a text are not drawn everywhere.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(' ', "\u{a0}")
}
