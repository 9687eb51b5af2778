//! The rows of a waterfall and their bars: leases, steps with their tries, and groups of steps.

use baton_core::{LeaseEnd, Millis};
use baton_server::service::sheet::{Lease, StepAttempt, StepKind, StepOutline, StepState};
use maud::{Markup, html};

use super::super::rows::{Row, span};
use super::super::scale::Stretch;
use super::{Drawing, LEASES_MAX, held, kind_icon, label, percent};
use crate::format;
use crate::parts::icon;

impl Drawing<'_> {
    pub(super) fn held_by(&self) -> Markup {
        let shown: Vec<&Lease> = self
            .leases
            .iter()
            .filter(|lease| {
                let held = held(lease, self.end());
                self.scale.shows(held.from, held.to)
            })
            .collect();
        let words = |lease: &&Lease| {
            format!("epoch {} {}", lease.epoch, lease.worker_name.as_deref().unwrap_or("a worker that is gone"))
        };
        let label = shown.iter().take(10).map(words).collect::<Vec<_>>().join("; ");
        html! {
            a.wf-row href="#custody" {
                span.lb { (icon("hand")) span.cut { "Held by" } }
                svg.t role="img" aria-label={ "Leases: " (format::visible(&label)) } {
                    @for lease in shown.iter().rev().take(LEASES_MAX) {
                        @let held = held(lease, self.end());
                        @let silent = self.silent_from(lease, held);
                        @let (left, width) = self.bar(held.from, silent.unwrap_or(held.to));
                        @if let Some(silent) = silent {
                            @let (left, width) = self.bar(silent, held.to);
                            rect.box-bad fill="url(#hb)" x=(percent(left)) width=(percent(width)) y="5" height="16" rx="2" {}
                        }
                        @if silent != Some(held.from) {
                            rect.hold x=(percent(left)) width=(percent(width)) y="5" height="16" rx="2" {}
                        }
                        @if width > 4.0 && silent != Some(held.from) {
                            text class="in" x=(percent(left)) y="17" dx="5" {
                                "e" (lease.epoch)
                                @if width > 14.0 {
                                    tspan.hide-s { " " (format::visible(lease.worker_name.as_deref().unwrap_or_default())) }
                                }
                            }
                        }
                    }
                }
                span.du { (format::counted(self.leases.len() as u64, "lease", "leases")) }
            }
        }
    }

    /// From when on the holder of a lease that was lost was not heard of: a lease lives for so long after the last
    /// sign of life.
    fn silent_from(&self, lease: &Lease, held: Stretch) -> Option<Millis> {
        let is_lost = matches!(lease.ended, Some((_, LeaseEnd::Lost)));
        let ttl = self.view.app.current().lease_ttl_ms as Millis;
        is_lost.then(|| (held.to - ttl).max(held.from))
    }

    pub(super) fn row(&self, row: Row) -> Markup {
        match row.count {
            1 => self.step(&self.steps[row.first], row.is_inside),
            _ => self.group(&self.steps[row.first..row.first + row.count]),
        }
    }

    fn group(&self, steps: &[StepOutline]) -> Markup {
        let first = &steps[0];
        let count = |state| steps.iter().filter(|step| step.state == state).count();
        let (done, failed) = (count(StepState::Completed), count(StepState::Failed));
        let spans = steps.iter().map(|step| span(step, self.end()));
        let (from, to) = spans.fold((Millis::MAX, 0), |all, (from, to)| (all.0.min(from), all.1.max(to)));
        let is_open = self.asked.open.contains(&first.position);
        let (class, icon_name) = match (failed, done == steps.len()) {
            (0, true) => ("fill-ok", kind_icon(first.kind)),
            (0, false) => ("fill-run", kind_icon(first.kind)),
            (_, _) => ("fill-bad", kind_icon(first.kind)),
        };
        let (left, width) = self.bar(from, to);
        let href = self.href(&self.view.query.with("open", self.asked.toggled(first.position)));
        let name = format!("{} × {}", first.name, format::number(steps.len() as u64));
        let state = format!("{} of {}", format::number(done as u64), format::number(steps.len() as u64));
        html! {
            a.wf-row href=(href) id={ "group-" (first.position) } aria-expanded=(is_open) {
                span.lb {
                    (icon(icon_name)) span.cut dir="auto" title=(format::visible(&name)) { (format::visible(&name)) }
                    span.push.dim.xs.nowrap.hide-s { (state) }
                }
                svg.t role="img" aria-label={ (state) " done" } {
                    rect class=(class) x=(percent(left)) width=(percent(width)) y="11" height="4" rx="2" {}
                }
                span.du { (format::duration(to - from)) }
            }
        }
    }

    fn step(&self, step: &StepOutline, is_inside: bool) -> Markup {
        let (from, to) = span(step, self.end());
        let tries = self.tries.get(&step.position).map_or(&[][..], Vec::as_slice);
        let first = tries.first().map_or(from, |first| first.begun_at.min(from));
        let query = self.view.query.with("step", step.position.to_string());
        let is_chosen = self.asked.step == Some(step.position);
        let class = if is_inside { "lb d1" } else { "lb" };
        html! {
            a.wf-row href={ (query.at(&self.view.path)) "#step" } id={ "at-" (step.position) }
                aria-current=[is_chosen.then_some("true")] {
                span class=(class) {
                    (icon(kind_icon(step.kind)))
                    span.cut dir="auto" title=(format::visible(&step.name)) { (label(step)) }
                    @if step.attempts > 1 { span.push.dim.xs.nowrap.hide-s { (step.attempts) " tries" } }
                }
                svg.t role="img" aria-label=(self.words(step)) { (self.bars(step, tries)) }
                span.du { @if step.kind != StepKind::Fact { (format::duration(to - first)) } }
            }
        }
    }

    /// The bars of a step: tries that failed, pauses between them, and the last one.
    fn bars(&self, step: &StepOutline, tries: &[StepAttempt]) -> Markup {
        let (from, to) = span(step, self.end());
        let rect = |class: &str, fill: Option<&str>, from: Millis, to: Millis| {
            let (left, width) = self.bar(from, to);
            html! { rect class=(class) fill=[fill] x=(percent(left)) width=(percent(width)) y="8" height="10" rx="2" {} }
        };
        let line = |class: &str, from: Millis, to: Millis| {
            let (left, width) = self.bar(from, to);
            html! { line class={ "ln " (class) } x1=(percent(left)) x2=(percent(left + width)) y1="13" y2="13" {} }
        };
        let earlier =
            tries.iter().filter(|attempt| attempt.attempt < step.attempts || attempt.begun_at < step.begun_at);
        let mut before: Option<Millis> = None;
        let mut drawn = Vec::new();
        for attempt in earlier {
            if let Some(before) = before.filter(|before| *before < attempt.begun_at) {
                drawn.push(line("wait", before, attempt.begun_at));
            }
            let lost_at = || self.lease_end(attempt.epoch.number());
            let end = attempt.ended_at.or_else(lost_at).unwrap_or(attempt.begun_at).max(attempt.begun_at);
            drawn.push(match (attempt.state, attempt.ended_at) {
                (StepState::Begun, _) | (_, None) => rect("box-bad", Some("url(#hb)"), attempt.begun_at, end),
                (StepState::Completed, Some(_)) => rect("fill-ok", None, attempt.begun_at, end),
                (StepState::Failed, Some(_)) => rect("fill-bad", None, attempt.begun_at, end),
            });
            before = Some(end);
        }
        if let Some(before) = before.filter(|before| *before < from) {
            drawn.push(line("wait", before, from));
        }
        drawn.push(match (step.kind, step.state) {
            (StepKind::Fact, _) => {
                html! { rect.fill-wait x=(percent(self.scale.at(from))) y="10" width="6" height="6" rx="1" {} }
            }
            (StepKind::Sleep, _) => line("sleep", from, to),
            (StepKind::Signal, _) => line("sig", from, to),
            (_, StepState::Failed) => rect("fill-bad", None, from, to),
            (_, StepState::Completed) => rect("fill-ok", None, from, to),
            (StepKind::Child, StepState::Begun) => self.open_child(step, from, to),
            // Between two tries: the last one failed, and the next one is due.
            (StepKind::Step, StepState::Begun) if step.due_at.is_some() => {
                let ended = step.ended_at.or_else(|| tries.last()?.ended_at).unwrap_or(from);
                html! { (rect("fill-bad", None, from, ended)) (line("wait", ended, to)) }
            }
            (StepKind::Step, StepState::Begun) => match self.is_under_way(step) {
                true => rect("fill-run", None, from, to),
                false => rect("box-bad", Some("url(#hb)"), from, self.lease_end(step.epoch.number()).unwrap_or(to)),
            },
        });
        html! { @for one in drawn { (one) } }
    }

    /// A child that has not been heard of yet, as its run stands.
    fn open_child(&self, step: &StepOutline, from: Millis, to: Millis) -> Markup {
        let child = step.child.and_then(|run| self.children.get(&run));
        let end = child.and_then(|child| child.ended_at).unwrap_or(to).max(from);
        let class = match child.map(|child| child.state) {
            Some(baton_core::State::Completed) => "fill-ok",
            Some(baton_core::State::Failed) => "fill-bad",
            Some(baton_core::State::Pending | baton_core::State::Cancelled) => "fill-wait",
            Some(baton_core::State::Sleeping) => "fill-sleep",
            Some(baton_core::State::Assigned | baton_core::State::Running) | None => "fill-run",
        };
        let (left, width) = self.bar(from, end);
        html! { rect class=(class) x=(percent(left)) width=(percent(width)) y="8" height="10" rx="2" {} }
    }

    /// Whether the worker that began a step still holds the run.
    fn is_under_way(&self, step: &StepOutline) -> bool {
        self.sheet.record.state.is_held() && step.epoch == self.sheet.record.epoch
    }

    fn lease_end(&self, epoch: u32) -> Option<Millis> {
        self.leases.iter().find(|lease| lease.epoch == epoch).and_then(|lease| lease.ended).map(|(at, _)| at)
    }

    /// Left edge and width in per cent; what is short can still be seen.
    fn bar(&self, from: Millis, to: Millis) -> (f64, f64) {
        let (left, right) = (self.scale.at(from), self.scale.at(to));
        let width = (right - left).max(0.3);
        (left.min(100.0 - width), width)
    }

    fn words(&self, step: &StepOutline) -> String {
        let state = match (step.kind, step.state) {
            (StepKind::Fact, _) => "decided once",
            (StepKind::Sleep, StepState::Begun) => "sleeps",
            (StepKind::Sleep, _) => "slept",
            (StepKind::Signal, _) => "signal taken",
            (_, StepState::Completed) => "completed",
            (_, StepState::Failed) => "failed",
            (StepKind::Step, StepState::Begun) if step.due_at.is_some() => "is tried again",
            (_, StepState::Begun) => "under way",
        };
        format!("{}: {state}", format::visible(&step.name))
    }
}
