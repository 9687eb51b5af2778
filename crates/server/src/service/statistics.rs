//! statistics: numbers as series, of what the caller may see.

mod chart;
mod names;

use baton_core::Millis;
use baton_core::statistics::{MINUTE, Resolution, STEP, Window, floor};
use baton_proto::{Statistics, Time};
use baton_store::Scope;

use self::chart::Chart;
use self::names::{Name, chosen};
use crate::auth::Caller;
use crate::{App, Error};

/// Most points of a series; an hour of 10 seconds, a day of minutes and a month of hours have fewer.
pub const POINTS_MAX: usize = 1_500;
/// Most queues or pools that are listed by themselves.
pub const LIMIT_MAX: usize = 100;
/// How many are listed if nobody says how many.
const LIMIT_DEFAULT: usize = 20;
/// What another server has counted is written down so long after its minute is over, at the latest, when all is well.
const WRITTEN_WITHIN: Millis = 15_000;
/// How long a level that somebody saw is shown while nobody looks: a quiet system is looked at once in this time.
const LOOKED_WITHIN: Millis = MINUTE + 2 * STEP;

/// A stretch of time that ends now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Range {
    /// By 10 seconds.
    Hour,
    /// By a minute.
    Day,
    /// By an hour.
    Month,
}

impl Range {
    /// The range with this name.
    pub fn named(name: &str) -> Option<Range> {
        match name {
            "hour" => Some(Range::Hour),
            "day" => Some(Range::Day),
            "month" => Some(Range::Month),
            _ => None,
        }
    }

    fn resolution(self) -> Resolution {
        match self {
            Range::Hour => Resolution::Seconds,
            Range::Day => Resolution::Minutes,
            Range::Month => Resolution::Hours,
        }
    }
}

/// What is listed besides the sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Queues: the deepest, then the busiest.
    Queue,
    /// Runner pools.
    Pool,
}

/// What somebody wants to see.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// A stretch that ends now. The last hour, if nothing is said.
    pub range: Option<Range>,
    /// From this moment on, instead.
    pub from: Option<Millis>,
    /// Until this moment; now if nothing is said.
    pub until: Option<Millis>,
    /// Only of this namespace.
    pub namespace: Option<String>,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only of this runner pool.
    pub pool: Option<String>,
    /// Only these series, parted by commas: names, or the first part of names.
    pub series: Option<String>,
    /// What is listed besides the sums.
    pub by: Option<By>,
    /// How many are listed at most.
    pub limit: Option<usize>,
    /// Steps are made longer until there are no more points than this.
    pub points: Option<usize>,
}

/// The series that somebody wants to see.
pub async fn get(app: &App, caller: &Caller, wanted: Wanted) -> Result<Statistics, Error> {
    caller.has(Scope::Read)?;
    if let Some(namespace) = &wanted.namespace {
        caller.may(Scope::Read, namespace)?;
    }
    let now = app.statistics.now();
    let window = window(&wanted, now)?;
    let names = chosen(wanted.series.as_deref(), wanted.queue.is_some(), wanted.pool.is_some())?;
    let limit = wanted.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Error::field("limit", format!("must be 1 to {LIMIT_MAX}")));
    }
    // Levels of the first steps are those of the last look before them.
    let lead = if window.step_ms < LOOKED_WITHIN { (LOOKED_WITHIN / window.step_ms) as usize } else { 0 };
    let from = window.from - lead as Millis * window.step_ms;
    let blocks = app.statistics.read(from, window.until(), window.resolution).await?;
    let mut chart = Chart::new(Window { from, count: window.count + lead, ..window });
    chart.namespace = wanted.namespace.or_else(|| caller.namespace.clone()).map(Into::into);
    chart.queue = wanted.queue.map(Into::into);
    chart.pool = wanted.pool.map(Into::into);
    if let Some(by) = wanted.by {
        chart.list(by, &blocks, limit);
    }
    blocks.each(|block| chart.add(block));
    let complete_until = match app.store.is_shared() {
        true => floor(now - WRITTEN_WITHIN, MINUTE),
        false => floor(now, STEP),
    };
    Ok(Statistics {
        from: Time(window.from),
        until: Time(window.until()),
        step_ms: window.step_ms.unsigned_abs(),
        complete_until: Time(complete_until.min(window.until())),
        times: window.times().map(Time).collect(),
        series: chart.series(&names, lead),
    })
}

fn window(wanted: &Wanted, now: Millis) -> Result<Window, Error> {
    let points = wanted.points.unwrap_or(POINTS_MAX);
    if !(2..=POINTS_MAX).contains(&points) {
        return Err(Error::field("points", format!("must be 2 to {POINTS_MAX}")));
    }
    let Some(from) = wanted.from else {
        if wanted.until.is_some() {
            return Err(Error::field("from", "must be there where until is; without both, give a range"));
        }
        return Ok(Window::last(wanted.range.unwrap_or(Range::Hour).resolution(), now, points));
    };
    if wanted.range.is_some() {
        return Err(Error::field("range", "must not be there where from is: one of them says what is shown"));
    }
    // The step of this moment is shown, too.
    let until = wanted.until.unwrap_or(now + 1);
    if until <= from {
        return Err(Error::field("until", "must be after from"));
    }
    if until - from > 2 * Resolution::Hours.shown_ms() || from < 0 {
        return Err(Error::field("from", "must be at most 62 days before until: nothing is kept for longer than 31"));
    }
    Ok(Window::new(from, until, now, points))
}

/// The names of all series, for documentation.
pub fn names() -> Vec<&'static str> {
    names::ALL.iter().map(|(name, _)| *name).collect()
}

/// What a name stands for.
type Named = (&'static str, Name);
