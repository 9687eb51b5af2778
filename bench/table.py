#!/usr/bin/env python3
"""results.jsonl -> Markdown: medians (min–max) for each peer, the floors that Baton keeps, and every metric."""
import json
import statistics
import sys

LIMITS = ("PostgreSQL limit", "disk ", "SQLite ", "axum ")
BATON = {"SQLite": "Baton (SQLite, HTTP)", "PostgreSQL": "Baton (PostgreSQL, HTTP)"}
ON_POSTGRES = ("graphile", "pg-boss", "apalis", "underway", "procrastinate", "DBOS")
GRAPHILE_RUST = "graphile_worker "
WORKFLOWS = ("wf3", "wf3_c128", "drain_wf3", "wf3_queue_4threads")
BULL_ALWAYS = "BullMQ 6.7.0 (node, redis 7.0 appendfsync always)"

peers = {}
for line in map(json.loads, open(sys.argv[1])):
    peers.setdefault(line["peer"], {}).setdefault(line["metric"], []).append(line)


def values(peer, metric):
    return [line["value"] for line in peers.get(peer, {}).get(metric, [])]


def median(peer, metric):
    found = values(peer, metric)
    return statistics.median(found) if found else None


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def cell(peer, metric):
    found = values(peer, metric)
    if not found:
        return "–"
    return f"{number(statistics.median(found))} ({number(min(found))}–{number(max(found))})"


def best(metric, which):
    """The peer with the highest median, and that."""
    found = [(median(peer, metric), peer) for peer in peers if which(peer) and values(peer, metric)]
    return max(found, default=(None, None))


def is_peer(peer):
    return not peer.startswith(LIMITS) and peer not in BATON.values()


def on_postgres(peer):
    return is_peer(peer) and (peer.startswith(ON_POSTGRES) or "PostgreSQL backend" in peer)


def floors():
    """(what, Baton's median, the peer it is held against, that one's median, the least ratio)."""
    held = best("enqueue_one", on_postgres)
    yield "one by one, PostgreSQL", median(BATON["PostgreSQL"], "enqueue_one"), *held, 3.0
    held = median(BULL_ALWAYS, "enqueue_one"), BULL_ALWAYS
    yield "one by one, SQLite", median(BATON["SQLite"], "enqueue_one_20k"), *held, 1.0
    for store, peer in BATON.items():
        yield f"bulk, {store}", median(peer, "enqueue_bulk"), *best("enqueue_bulk", is_peer), 0.5
    for metric in ("drain", "drain_100k"):
        held = best(metric, lambda peer: peer.startswith(GRAPHILE_RUST))
        for store, least in (("PostgreSQL", 0.3), ("SQLite", 0.5)):
            yield f"{metric}, {store}", median(BATON[store], metric), *held, least
    for store, peer in BATON.items():
        yield f"stream against HTTP batches, {store}", median(peer, "drain_stream"), median(peer, "drain"), peer, 1.5
    # The best of its variants, for everybody.
    theirs = max((best(metric, is_peer) for metric in WORKFLOWS), key=lambda found: found[0] or 0)
    for store, peer in BATON.items():
        ours = max((median(peer, metric) or 0 for metric in WORKFLOWS)) or None
        yield f"three-step workflows, {store}", ours, *theirs, 3.0


def heading(*names, right=()):
    print(f"\n| {' | '.join(names)} |\n|{'|'.join('---:' if name in right else '---' for name in names)}|")


columns = {
    "enqueue_bulk": "bulk, runs/s", "enqueue_one": "one by one, 5,000, runs/s", "enqueue_one_20k": "one by one, 20,000, runs/s",
    "drain": "drain, runs/s", "drain_100k": "drain 100,000, runs/s", "pickup_p50": "pickup p50, ms", "pickup_p99": "pickup p99, ms",
    "drain_stream": "drain over the stream, runs/s", "drain_few": "drain, 100 held", "drain_stream_few": "over the stream, 100 held", "wf3": "3-step workflows/s", "wf3_c128": "the same, 128 in flight", "wf1": "1-step workflows/s"}
heading("who", *columns.values(), right=columns.values())
for peer in peers:
    if not peer.startswith(LIMITS):
        print(f"| {peer} | {' | '.join(cell(peer, metric) for metric in columns)} |")

verdicts = []


def judge(met):
    """The word for a floor; None is one that was not measured."""
    verdicts.append(met)
    return {True: "met", False: "**missed**", None: "not measured"}[met]


heading("floor", "Baton", "held against", "its median", "ratio", "at least", "", right=("Baton", "its median", "ratio", "at least"))
for what, ours, theirs, against, least in floors():
    if ours is None or theirs is None:
        print(f"| {what} | {'–' if ours is None else number(ours)} | {against or '–'} | – | – | {least} | {judge(None)} |")
        continue
    verdict = judge(ours >= least * theirs)
    print(f"| {what} | {number(ours)} | {against} | {number(theirs)} | {ours / theirs:.2f} | {least} | {verdict} |")
heading("floor", "Baton", "at most, ms", "", right=("Baton", "at most, ms"))
for store, peer in BATON.items():
    for metric, most in (("pickup_p50", 2), ("pickup_p99", 6)):
        ours = median(peer, metric)
        shown, met = ("–", None) if ours is None else (f"{ours:.2f}", ours <= most)
        print(f"| {metric}, {store} | {shown} | {most} | {judge(met)} |")

heading("limit of the machine", "median (min–max)", "unit", "settings", right=("median (min–max)",))
for peer, metrics in peers.items():
    if peer.startswith(LIMITS):
        for metric, lines in metrics.items():
            print(f"| {peer}: {metric} | {cell(peer, metric)} | {lines[0]['unit']} | {lines[0]['settings']} |")

print("\nEvery metric. Cores: CPU used by the driver (for Baton: with its server) / by other servers, start included.")
heading("who", "metric", "median (min–max)", "unit", "times", "cores", "foreign CPU", "settings", right=("median (min–max)", "times"))
for peer, metrics in peers.items():
    for metric, lines in metrics.items():
        cores = " / ".join(f"{statistics.median(each):.1f}" for each in zip(*(line["cpu"] for line in lines)))
        foreign = f"{max(line['foreign'] for line in lines):.0%}"
        print(f"| {peer} | {metric} | {cell(peer, metric)} | {lines[0]['unit']} | {len(lines)} | {cores} | {foreign} | {lines[0]['settings']} |")
met, missed, unmeasured = (verdicts.count(verdict) for verdict in (True, False, None))
print(f"\nFloors: {met} met, {missed} missed, {unmeasured} not measured.")
# A floor that nobody measured is not one that is kept.
sys.exit(1 if missed or unmeasured else 0)
