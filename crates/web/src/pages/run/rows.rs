//! Which rows a waterfall has: one for each position, and one for neighbours that are alike.

use baton_core::Millis;
use baton_server::service::sheet::{StepKind, StepOutline, StepState};

/// So many neighbours of the same kind and name are one row.
const ALIKE_MIN: usize = 3;

/// A row: steps from one index to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The index of its first step.
    pub first: usize,
    /// How many steps it has.
    pub count: usize,
    /// It is one of a group that is open.
    pub is_inside: bool,
}

/// The rows of steps; `is_open` says whether the group that begins at a position is open.
pub fn of(steps: &[StepOutline], is_open: impl Fn(u32) -> bool) -> Vec<Row> {
    let (mut rows, mut first) = (Vec::new(), 0);
    while first < steps.len() {
        let alike = |step: &&StepOutline| step.kind == steps[first].kind && step.name == steps[first].name;
        let count = steps[first..].iter().take_while(alike).count();
        if count < ALIKE_MIN {
            rows.extend((first..first + count).map(|first| Row { first, count: 1, is_inside: false }));
        } else {
            rows.push(Row { first, count, is_inside: false });
            if is_open(steps[first].position) {
                rows.extend((first..first + count).map(|first| Row { first, count: 1, is_inside: true }));
            }
        }
        first += count;
    }
    rows
}

/// From when to when a step was under way; until now when it still is.
pub fn span(step: &StepOutline, now: Millis) -> (Millis, Millis) {
    let open_until = match step.kind {
        StepKind::Sleep => step.due_at.map_or(now, |due| due.min(now)),
        StepKind::Step | StepKind::Signal | StepKind::Child | StepKind::Fact => now,
    };
    let end = match step.state {
        StepState::Begun => open_until,
        StepState::Completed | StepState::Failed => step.ended_at.unwrap_or(step.begun_at),
    };
    (step.begun_at, end.max(step.begun_at))
}

#[cfg(test)]
mod tests {
    use baton_core::Epoch;

    use super::*;

    fn steps(names: &str) -> Vec<StepOutline> {
        let step = |(position, name): (usize, char)| StepOutline {
            position: position as u32,
            kind: StepKind::Step,
            name: name.to_string(),
            state: StepState::Completed,
            code: None,
            attempts: 1,
            epoch: Epoch::new(1),
            begun_at: 10,
            ended_at: Some(20),
            due_at: None,
            child: None,
        };
        names.chars().enumerate().map(step).collect()
    }

    #[test]
    fn neighbours_that_are_alike_are_one_row() {
        let shapes = |names, open: Option<u32>| {
            let rows = of(&steps(names), |position| open == Some(position));
            rows.iter().map(|row| (row.first, row.count, row.is_inside)).collect::<Vec<_>>()
        };
        assert_eq!(shapes("", None), []);
        assert_eq!(shapes("aab", None), [(0, 1, false), (1, 1, false), (2, 1, false)]);
        assert_eq!(shapes("abbbba", None), [(0, 1, false), (1, 4, false), (5, 1, false)]);
        assert_eq!(shapes("aaa", Some(0)), [(0, 3, false), (0, 1, true), (1, 1, true), (2, 1, true)]);
    }

    #[test]
    fn a_step_that_is_under_way_lasts_until_now() {
        let mut step = steps("a").remove(0);
        assert_eq!(span(&step, 99), (10, 20));
        step.state = StepState::Begun;
        assert_eq!(span(&step, 99), (10, 99));
        step.kind = StepKind::Sleep;
        step.due_at = Some(50);
        assert_eq!(span(&step, 99), (10, 50));
        assert_eq!(span(&step, 5), (10, 10));
    }
}
