//! `baton stats`: what has happened lately, as numbers and small charts.

use baton::proto::{Series, Statistics};
use baton::{Client, StatisticsFilter};
use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::output::{Column, Listing, Table, or_dash};

pub const HELP: &str = "\
Each row is a series: what it was last, its largest value, the sum of what can be summed, and a chart from the beginning of the
range to now. A gap in the chart is time in which no server was up, or nothing was measured. Times are in milliseconds.

Examples:
  baton stats
  baton stats --queue mail --range day
  baton stats --by queue --series ready,completed --watch
  baton stats --range month --series completed,failed -o json";

/// Bars of a chart in a table.
const BARS: usize = 24;
/// Bars of a chart in a wide table.
const BARS_WIDE: usize = 60;
/// What each queue is shown with if nobody says what with.
const OF_EACH_QUEUE: &str = "ready,completed,failed";
/// The same of each pool.
const OF_EACH_POOL: &str = "runners.idle,runners.running,pool_claims.waiting";
/// What is shown if nobody says what.
const MOST_WANTED: &str = "submitted,claimed,completed,failed,cancelled,retried,returned,lost,wait,duration,\
     ready,scheduled,running,sleeping,oldest_ms,workers";
/// The same of a pool.
const OF_A_POOL: &str = "runners,pool_claims,hits";
/// From nothing to the largest value.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A stretch of time that ends now.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Range {
    /// The last hour, by 10 seconds.
    Hour,
    /// The last day, by a minute.
    Day,
    /// The last 31 days, by an hour.
    Month,
}

/// What is listed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Each queue: the deepest, then the busiest.
    Queue,
    /// Each runner pool.
    Pool,
}

#[derive(Args)]
pub struct StatsArgs {
    /// Which stretch of time.
    #[arg(long, value_enum, default_value = "hour")]
    range: Range,
    /// Only of this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Only of this queue.
    #[arg(long, conflicts_with = "pool")]
    queue: Option<String>,
    /// Only of this runner pool.
    #[arg(long)]
    pool: Option<String>,
    /// Only these series, parted by commas: `ready`, or all of a subject: `wait`.
    #[arg(long, value_delimiter = ',')]
    series: Vec<String>,
    /// List each of these besides the sums.
    #[arg(long, value_enum)]
    by: Option<By>,
    /// List at most so many of them.
    #[arg(long, requires = "by")]
    limit: Option<usize>,
    /// Show at most so many steps; in a table as many as fit.
    #[arg(long)]
    points: Option<usize>,
    #[command(flatten)]
    listing: Listing,
}

/// Prints statistics.
pub async fn stats(client: &Client, args: StatsArgs) -> Result<(), Exit> {
    let StatsArgs { range, namespace, queue, pool, series, by, limit, points, listing } = args;
    let format = listing.format;
    let by = by.map(|by| match by {
        By::Queue => ("queue", OF_EACH_QUEUE),
        By::Pool => ("pool", OF_EACH_POOL),
    });
    let series = match (series.is_empty() && !format.is_json(), by, &pool) {
        (false, _, _) => series,
        (true, Some((_, few)), _) => vec![few.into()],
        (true, None, Some(_)) => vec![OF_A_POOL.into()],
        (true, None, None) => vec![MOST_WANTED.into()],
    };
    let bars = if format.look().is_wide() { BARS_WIDE } else { BARS };
    let filter = StatisticsFilter {
        range: Some(match range {
            Range::Hour => "hour".into(),
            Range::Day => "day".into(),
            Range::Month => "month".into(),
        }),
        namespace,
        queue,
        pool,
        series,
        by: by.map(|(by, _)| by.into()),
        limit,
        points: points.or_else(|| (!format.is_json()).then_some(bars)),
        ..StatisticsFilter::default()
    };
    let ask = async || client.statistics(&filter).await;
    listing.show(ask, move |statistics, _| table(statistics, bars)).await
}

fn table(statistics: &Statistics, bars: usize) -> Table {
    let is_listed = statistics.series.iter().any(|series| subject(series).is_some());
    let mut columns = Vec::new();
    columns.extend(is_listed.then(|| Column::key("of")));
    columns.push(if is_listed { Column::name("series") } else { Column::key("series") });
    columns.extend([Column::number("last"), Column::number("most"), Column::number("sum"), Column::chart("")]);
    let mut table = Table::of(columns);
    for series in &statistics.series {
        let known = || series.values.iter().flatten().copied();
        let sum: f64 = known().sum();
        let mut cells = Vec::new();
        if is_listed {
            cells.push(subject(series).unwrap_or("all").to_owned());
        }
        cells.extend([
            series.name.clone(),
            or_dash(known().next_back().map(number)),
            or_dash(known().reduce(f64::max).map(number)),
            or_dash((is_count(&series.name) && known().next().is_some()).then(|| number(sum))),
            chart(&series.values, bars),
        ]);
        table.row(cells);
    }
    table
}

/// The queue or pool that a series is about.
fn subject(series: &Series) -> Option<&str> {
    let name = series.queue.as_deref().or(series.pool.as_deref());
    name.or_else(|| series.other.then_some("(others)"))
}

/// True for what happened, which adds up over time; not for what was seen or measured.
fn is_count(name: &str) -> bool {
    let counts = ["submitted", "claimed", "completed", "failed", "cancelled", "retried", "returned", "lost", "hits"];
    counts.contains(&name.split('.').next().unwrap_or_default())
}

/// A number in few characters.
fn number(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{:.1}G", value / 1e9),
        value if value >= 1e6 => format!("{:.1}M", value / 1e6),
        value if value.fract() == 0.0 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// Bars from the oldest value to the newest, the largest of each where there are more values than room. What is not known
/// is left blank.
fn chart(values: &[Option<f64>], bars: usize) -> String {
    let per_bar = values.len().div_ceil(bars.max(1)).max(1);
    let each: Vec<Option<f64>> =
        values.chunks(per_bar).map(|some| some.iter().flatten().copied().reduce(f64::max)).collect();
    let most = each.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |value: &Option<f64>| match value {
        None => ' ',
        Some(value) if *value <= 0.0 || most <= 0.0 => LEVELS[0],
        // What is not nothing is more than the lowest bar.
        Some(value) => {
            let level = (value / most * (LEVELS.len() - 1) as f64).round() as usize;
            LEVELS[level.clamp(1, LEVELS.len() - 1)]
        }
    };
    each.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Look;
    use unicode_width::UnicodeWidthStr;

    type Line<'a> = (&'a str, Option<&'a str>, Vec<Option<f64>>);

    fn statistics(series: &[Line<'_>]) -> Statistics {
        let series = series.iter().map(|(name, queue, values)| Series {
            name: (*name).into(),
            namespace: None,
            queue: queue.map(str::to_owned),
            pool: None,
            other: false,
            values: values.clone(),
        });
        let zero = baton::proto::Time(0);
        Statistics {
            from: zero,
            until: zero,
            step_ms: 1,
            complete_until: zero,
            times: vec![],
            series: series.collect(),
        }
    }

    #[test]
    fn a_chart_goes_from_nothing_to_the_largest_and_leaves_gaps_blank() {
        let values = [Some(0.0), None, Some(1.0), Some(50.0), Some(100.0)];
        assert_eq!(chart(&values, 10), "▁ ▂▅█");
        assert_eq!(chart(&values, 3), "▁▅█", "the largest of those that share a bar");
        assert_eq!((chart(&[], 5), chart(&[Some(0.0)], 5)), (String::new(), "▁".into()));
    }

    #[test]
    fn the_table_fits_80_columns() {
        let long = "a-queue-with-quite-a-long-name-that-somebody-generated".repeat(2);
        let values = vec![Some(1_234_567.0); 24];
        let told = statistics(&[
            ("duration.p99_ms", None, values.clone()),
            ("completed", Some(&long), values),
            ("ready", Some("mail"), vec![None; 24]),
        ]);
        let look = Look::test(80, 0);
        let text = table(&told, BARS).render(look);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        assert!(text.contains("29.6M") && text.contains("████"), "{text}");
        let plain = statistics(&[("lost", None, vec![Some(0.0), Some(2.0)])]);
        let text = table(&plain, BARS).render(look);
        assert_eq!(text, "SERIES  LAST  MOST  SUM\nlost       2     2    2  ▁█\n");
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.25, 412.0, 999_999.0, 1_500_000.0, 2e9].map(number);
        assert_eq!(all, ["0", "0.2", "412", "999999", "1.5M", "2.0G"]);
    }
}
