//! What a build has besides its run: phases, files, the machine, and its source.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use baton_core::{LeaseEnd, Millis};
use baton_server::service::sheet::{Artifact, ArtifactKind, Build, BuildSource, Lease, Machine, Measured, Sheet};
use baton_server::{App, Error, face};
use http::{HeaderMap, Method};
use maud::{Markup, html};

use crate::format::{self, Precision};
use crate::parts::{self, Tone, icon};
use crate::session::Visitor;
use crate::view::View;

/// Routes that send files.
pub fn downloads(router: Router<App>) -> Router<App> {
    router.route("/runs/{id}/file/{which}", get(download))
}

/// A stretch of a build's time.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Phase {
    what: What,
    from: Millis,
    to: Millis,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Nobody had it.
    Waited,
    /// Somebody had it and had not begun.
    Prepared(u32),
    /// Somebody worked on it.
    Built(u32),
    /// Somebody worked on it, and was lost.
    Lost(u32),
    /// What is left, going by earlier builds.
    Left,
}

impl What {
    fn class(self) -> &'static str {
        match self {
            What::Waited => "",
            What::Prepared(_) => "p-fetch",
            What::Built(_) => "fill-run",
            What::Lost(_) => "box-bad",
            What::Left => "p-left",
        }
    }

    fn fill(self) -> Option<&'static str> {
        match self {
            What::Waited => Some("url(#hw)"),
            What::Lost(_) => Some("url(#hb)"),
            What::Prepared(_) | What::Built(_) | What::Left => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            What::Waited => "waited",
            What::Prepared(_) => "prepared",
            What::Built(_) => "built",
            What::Lost(_) => "built, and lost",
            What::Left => "about",
        }
    }

    fn epoch(self) -> Option<u32> {
        match self {
            What::Prepared(epoch) | What::Built(epoch) | What::Lost(epoch) => Some(epoch),
            What::Waited | What::Left => None,
        }
    }
}

/// The stretches, one after the other. `until` is the end, or now; `expected` when it should end.
fn phases(submitted_at: Millis, leases: &[Lease], until: Millis, expected: Option<Millis>) -> Vec<Phase> {
    let mut all = Vec::new();
    let mut at = submitted_at;
    let mut add = |what, to: Millis| {
        if to > at {
            all.push(Phase { what, from: at, to });
            at = to;
        }
    };
    for lease in leases {
        add(What::Waited, lease.claimed_at);
        let end = lease.ended.map_or(until, |(end, _)| end);
        add(What::Prepared(lease.epoch), lease.started_at.unwrap_or(end).min(end));
        let is_lost = lease.ended.is_some_and(|(_, how)| how == LeaseEnd::Lost);
        add(if is_lost { What::Lost(lease.epoch) } else { What::Built(lease.epoch) }, end);
    }
    add(What::Waited, until);
    if let Some(expected) = expected {
        add(What::Left, expected);
    }
    all
}

/// The bar with the phases, and the same in words.
pub async fn phase_bar(view: &View, sheet: &Sheet, leases: &[Lease]) -> Result<Markup, Error> {
    let record = &sheet.record;
    let begun = leases.last().filter(|lease| lease.ended.is_none());
    let usual = match begun {
        Some(_) => sheet.usual_ms(&view.app).await?,
        None => None,
    };
    let expected = begun.zip(usual).map(|(lease, usual)| lease.started_at.unwrap_or(lease.claimed_at) + usual);
    let until = record.ended_at.unwrap_or(view.now);
    let phases = phases(record.submitted_at, leases, until, expected);
    let whole = phases.last().map_or(0, |last| last.to - record.submitted_at);
    if whole <= 0 {
        return Ok(html! { section id="phases" hidden {} });
    }
    let percent = |ms: Millis| format!("{:.2}%", ms as f64 * 100.0 / whole as f64);
    let words: Vec<String> = phases
        .iter()
        .map(|phase| format!("{} {}", phase.what.word(), format::duration(phase.to - phase.from)))
        .collect();
    Ok(html! {
        section.panel id="phases" aria-label="Phases" {
            div.body.phases {
                svg role="img" aria-label=(words.join(", ")) {
                    @for phase in &phases {
                        rect class=(phase.what.class()) fill=[phase.what.fill()] x=(percent(phase.from - record.submitted_at))
                            width=(percent(phase.to - phase.from)) height="22" {}
                    }
                    @for phase in phases.iter().filter(|phase| (phase.to - phase.from) * 12 > whole) {
                        @if let What::Built(epoch) = phase.what {
                            text x=(percent(phase.from - record.submitted_at)) dx="6" y="15" { "build e" (epoch) }
                        }
                    }
                }
                ol {
                    @for phase in &phases {
                        li {
                            svg aria-hidden="true" {
                                rect class=(phase.what.class()) fill=[phase.what.fill()] width="12" height="12" {}
                            }
                            (phase.what.word()) " " (format::duration(phase.to - phase.from))
                            @if phase.what == What::Left { " left" }
                            @if let Some(epoch) = phase.what.epoch().filter(|_| leases.len() > 1) { " " (parts::epoch(epoch)) }
                        }
                    }
                }
                @if let (Some(expected), Some(usual)) = (expected, usual) {
                    p.hint {
                        @if expected > view.now {
                            "It should end at about " b.b { (parts::clock(view, expected, Precision::Minutes)) }
                        } @else {
                            "It takes longer than usual"
                        }
                        ": the last builds of this project took " (format::duration(usual)) "."
                    }
                }
            }
        }
    })
}

/// What stands beside the log.
pub async fn aside(view: &View, sheet: &Sheet, build: &Build) -> Result<Markup, Error> {
    let files = sheet.files(&view.app).await?;
    let (machine, measured) = sheet.machine(&view.app).await?;
    Ok(html! {
        aside.stack aria-label="Files, machine and source" {
            (crate::page::part("artifacts", &artifacts(view, sheet, &files)))
            (crate::page::part("machine", &machine_panel(sheet, machine.as_ref(), &measured)))
            (source(view, sheet, build, &files))
        }
    })
}

fn artifacts(view: &View, sheet: &Sheet, files: &[Artifact]) -> Markup {
    let record = &sheet.record;
    let is_done = record.state == baton_core::State::Completed;
    // Results of earlier leases are nobody's: only that of the lease which completes the build is ever shown.
    let is_shown = |file: &&Artifact| file.kind == ArtifactKind::Result && file.epoch == record.epoch;
    let results: Vec<&Artifact> = files.iter().filter(is_shown).collect();
    let none = match (record.state.is_ended(), is_done) {
        (false, _) => "None yet.",
        (true, true) => "It completed without one.",
        (true, false) => "None: what a build that has not completed left behind is not published.",
    };
    html! {
        section.panel id="artifacts" aria-labelledby="artifacts-title" {
            header {
                h2 id="artifacts-title" { "Artifacts" }
                span.count {
                    (results.len())
                    @if !record.state.is_ended() && !results.is_empty() { ", published when it completes" }
                }
            }
            @if results.is_empty() || (record.state.is_ended() && !is_done) {
                div.body { p.none { (none) } }
            } @else {
                table {
                    tbody {
                        @for file in results {
                            (row(view, sheet, file, is_done.then_some("result")))
                        }
                    }
                }
            }
        }
    }
}

fn row(view: &View, sheet: &Sheet, file: &Artifact, which: Option<&str>) -> Markup {
    let (size, sum) = file.stored.map_or((0, [0; 32]), |stored| stored);
    let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    let address = which.map(|which| view.href(&format!("/runs/{}/file/{which}", sheet.run())));
    html! {
        tr {
            td {
                @match &address {
                    Some(address) => a.b dir="auto" href=(address) download { (format::visible(&file.name)) },
                    None => span.b dir="auto" { (format::visible(&file.name)) }
                }
                div.id.cut title=(sum) { "sha-256 " (&sum[..6]) "…" (&sum[58..]) }
            }
            td.num.soft { (format::bytes(size)) }
            td.num {
                @if let Some(address) = &address {
                    a.btn.small.icon.ghost href=(address) download aria-label={ "Download " (format::visible(&file.name)) } {
                        (icon("get"))
                    }
                }
            }
        }
    }
}

fn machine_panel(sheet: &Sheet, machine: Option<&Machine>, measured: &[Measured]) -> Markup {
    let cpu: Vec<Option<f64>> = measured.iter().map(|at| at.cpu).collect();
    let memory: Vec<Option<f64>> = measured.iter().map(|at| at.memory.or(at.memory_mb)).collect();
    let last = |of: &dyn Fn(&Measured) -> Option<f64>| measured.iter().rev().find_map(of);
    let whole = if are_shares(measured) { 100.0 } else { 1.0 };
    let worker = sheet.worker.as_ref();
    let progress = machine.and_then(|machine| machine.progress).filter(|_| sheet.record.state.is_held());
    html! {
        section.panel id="machine" aria-labelledby="machine-title" {
            header {
                h2 id="machine-title" { "Machine" }
                @if let Some(worker) = worker { span.count.cut dir="auto" { (format::visible(&worker.name)) } }
            }
            div.body.stack {
                @if let Some(progress) = progress {
                    div {
                        div.row.sm { span.soft { "Progress, as it says" } b.b.push { (format!("{progress:.0} %")) } }
                        (parts::bar(progress / 100.0, Tone::Run))
                    }
                }
                @if cpu.iter().flatten().count() > 1 {
                    div {
                        div.row.sm {
                            span.soft { "CPU" }
                            @if let Some(cpu) = last(&|at| at.cpu) { b.b.push { (format!("{:.0} %", cpu * whole)) } }
                        }
                        (parts::spark(&cpu, Tone::Run, 300, 34))
                    }
                }
                @if memory.iter().flatten().count() > 1 {
                    div {
                        div.row.sm {
                            span.soft { "Memory" }
                            @match (last(&|at| at.memory_mb), last(&|at| at.memory)) {
                                (Some(mb), _) => b.b.push { (format::bytes((mb * 1e6) as u64)) },
                                (None, Some(share)) => b.b.push { (format!("{:.0} %", share * whole)) },
                                (None, None) => {}
                            }
                        }
                        (parts::spark(&memory, Tone::Plain, 300, 34))
                    }
                }
                dl.kv {
                    dt { "Worker" }
                    dd dir="auto" { @match worker { Some(worker) => (format::visible(&worker.name)), None => "none" } }
                    @if let Some(host) = worker.map(|worker| worker.info.hostname.as_str()).filter(|host| !host.is_empty()) {
                        dt { "Host" } dd dir="auto" { (format::visible(host)) }
                    }
                    @if let Some(version) = worker.map(|worker| worker.info.version.as_str()).filter(|text| !text.is_empty()) {
                        dt { "Version" } dd dir="auto" { (format::visible(version)) }
                    }
                    @if measured.is_empty() { dt { "Measured" } dd.soft { "nothing" } }
                }
            }
        }
    }
}

/// Some builders say shares of one, others per cent. No machine that builds uses only one per cent of its memory;
/// its load may well be more than its processors can carry.
fn are_shares(measured: &[Measured]) -> bool {
    let most = |of: &dyn Fn(&Measured) -> Option<f64>| measured.iter().filter_map(of).fold(0.0, f64::max);
    most(&|at| at.memory) <= 1.0 && most(&|at| at.cpu) <= 8.0
}

/// True when the repository's own name is the project, which need not be said twice.
fn is_slug(build: &Build, project: &str) -> bool {
    matches!(&build.submitted.source, BuildSource::Git { slug, .. } if slug == project)
}

fn source(view: &View, sheet: &Sheet, build: &Build, files: &[Artifact]) -> Markup {
    let submitted = &build.submitted;
    let text = |name: &str, value: &str| html! { dt { (name) } dd dir="auto" { (format::visible(value)) } };
    html! {
        section.panel aria-labelledby="source-title" {
            header { h2 id="source-title" { "Source" } }
            @if let Some(file) = files.iter().find(|file| file.kind == ArtifactKind::Source) {
                table { tbody { (row(view, sheet, file, Some("source"))) } }
            }
            div.body {
                dl.kv {
                    @if let BuildSource::Git { slug, version, url, reference, image } = &submitted.source {
                        (text("Repository", url))
                        (text("Reference", reference))
                        (text("Project", slug))
                        (text("Version", version))
                        (text("Image", image))
                    }
                    (text("Platform", &submitted.platform))
                    @if let Some(project) = submitted.project.as_ref().filter(|project| !is_slug(build, project)) {
                        (text("Project", project))
                    }
                    @if let Some(image) = &submitted.base_image { (text("Machine image", image)) }
                    @if let Some(key) = &submitted.key_id { dt { "Submitted by" } dd { "key " span.id { (key) } } }
                    dt { "Id" } dd.id { (sheet.run()) }
                }
            }
        }
    }
}

async fn download(
    State(app): State<App>,
    visitor: Visitor,
    Path((id, which)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Error> {
    face::build_file(&app, &visitor.caller, &id, &which, &method, &headers).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(epoch: u32, claimed_at: Millis, started_at: Option<Millis>, ended: Option<(Millis, LeaseEnd)>) -> Lease {
        Lease { epoch, worker: None, worker_name: None, claimed_at, started_at, ended, error: None }
    }

    #[test]
    fn phases_follow_each_other_without_gaps() {
        let leases = [
            lease(1, 10, Some(12), Some((40, LeaseEnd::Lost))),
            lease(2, 45, Some(45), None),
            lease(3, 60, None, None),
        ];
        let shapes = |phases: Vec<Phase>| phases.iter().map(|phase| (phase.what, phase.to)).collect::<Vec<_>>();
        assert_eq!(
            shapes(phases(0, &leases[..1], 50, None)),
            [(What::Waited, 10), (What::Prepared(1), 12), (What::Lost(1), 40), (What::Waited, 50)]
        );
        assert_eq!(
            shapes(phases(0, &leases[1..2], 50, Some(70))),
            [(What::Waited, 45), (What::Built(2), 50), (What::Left, 70)]
        );
        assert_eq!(shapes(phases(0, &leases[2..], 80, Some(70))), [(What::Waited, 60), (What::Prepared(3), 80)]);
        assert_eq!(shapes(phases(0, &[], 9, None)), [(What::Waited, 9)]);
        assert_eq!(shapes(phases(5, &[], 5, None)), []);
    }
}
