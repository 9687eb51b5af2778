"""What is measured of whom: Baton, its peers, and the machine."""
import os
import re
import sys
import time

from measuring import (HERE, NODE, PG_BIN, PG_PORT, PYTHON, RUST, WORK, Server, figure, fresh_database,
                       fresh_directory, http_ok, measure, port_open, psql)

N20, N5, N100 = {"N": "20000"}, {"N": "5000"}, {"N": "100000", "METRIC": "drain_100k"}
BASIC = [("enqueue_bulk", N20), ("enqueue_one", N5), ("drain", N20), ("latency", {})]


def drivers(command, modes, **keywords):
    def run(rep):
        for mode, env in modes:
            measure(rep, [*command, mode], env, **keywords)
    return run


def node(script, modes, **keywords):
    return drivers([NODE, f"{WORK}/node/{script}"], modes, **keywords)


def python(script, modes):
    return drivers([PYTHON, f"{HERE}/py/{script}"], modes)


def rust(name, modes):
    return drivers([f"{RUST}/{name}"], modes)


def baton(store):
    def run(rep):
        # A fresh server and a fresh store for each figure are its own business.
        for what in ("submit", "bulk", "drain", "stream", "workflows", "pickup"):
            command = [os.environ["BATON"], "bench", "--store", store, "--only", what, "--json"]
            measure(rep, command, postgres=store == "postgres")
    return run


def bull(fsync, port):
    def run(rep):
        for mode, env in (("enqueue_bulk", N20), ("enqueue_one", N20), ("drain", N20), ("latency", {})):
            directory = fresh_directory(f"redis-{fsync}")
            command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
                       "--appendfsync", fsync, "--dir", directory]
            with Server(command, port_open(port), cwd=directory) as server:
                env = {**env, "FSYNC": fsync, "REDIS_PORT": str(port)}
                node("bullmq.mjs", [(mode, env)], postgres=False, servers=[server])(rep)
    return run


def beanstalkd(rep):
    for mode, env in (("enqueue_bulk", N5), ("enqueue_one", N5), ("drain", N5), ("latency", {})):
        directory = fresh_directory("beanstalk")
        with Server(["beanstalkd", "-l", "127.0.0.1", "-p", "51300", "-b", directory, "-f0"], port_open(51300)) as server:
            measure(rep, [f"{RUST}/beanstalk_driver", mode], env, postgres=False, servers=[server])


def restate(rep):
    program = f"{WORK}/node/node_modules/@restatedev/restate-server-linux-x64/bin/restate-server"
    command = [program, "--no-logo", "--config-file", f"{HERE}/restate.toml", "--base-dir", fresh_directory("restate"),
               "--node-name", "n1"]
    modes = [("enqueue_one", N5), ("call", N5), ("wf3", {"N": "3000"}),
             ("wf3", {"N": "3000", "CONC": "128", "METRIC": "wf3_c128"}), ("latency", {})]
    with Server(command, http_ok("http://127.0.0.1:19070/health")) as server:
        time.sleep(4)  # healthy is not ready yet
        node("restate.mjs", modes, postgres=False, servers=[server])(rep)


def pgbench(rep, metric, script, clients, unit, settings, per_transaction=1, mode="prepared", fill=0):
    fresh_database()
    psql("bench", "-f", f"{HERE}/sql/schema.sql")
    if fill:
        psql("bench", "-c", "insert into q(payload) select jsonb_build_object('id', g, 'tenant', 'acme', 'kind', 'noop', "
             f"'note', repeat('x', 44)) from generate_series(1, {fill}) g")
        psql("bench", "-c", "vacuum analyze q")
        psql("bench", "-c", "checkpoint")

    def parse(output):
        if fill and int(psql("bench", "-c", "select count(*) from q where state = 0")) == 0:
            raise ValueError("ran dry")
        rate = float(re.search(r"tps = ([\d.]+)", output).group(1)) * per_transaction
        return figure("PostgreSQL limit (pgbench)", metric, rate, unit, settings)

    batches = fill and per_transaction > 1
    length = ["-t", str(int(fill * 0.9) // per_transaction // clients)] if batches else ["-T", "6"]
    command = [f"{PG_BIN}/pgbench", "-n", "-h", "127.0.0.1", "-p", PG_PORT, "-U", "postgres", "-M", mode, "-D", "ids=0",
               "-c", str(clients), "-j", "2", *length, "-f", f"{HERE}/sql/{script}", "bench"]
    measure(rep, command, parse=parse, filled=True)


def limits(rep):
    pgbench(rep, "insert_single_commit", "insert1.sql", 32, "rows/s", "32 clients, one row per commit, prepared, one index + primary key")
    pgbench(rep, "claim_single", "claim1.sql", 16, "claims/s", "16 clients, UPDATE .. (SELECT .. FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING, 200,000 ready", fill=200000)
    pgbench(rep, "claim_delete_single", "claim1_done.sql", 16, "jobs/s", "16 clients, one claim commit and one delete commit per job", mode="simple", fill=200000)
    pgbench(rep, "claim100_delete100", "claim100.sql", 4, "jobs/s", "4 clients, claim 100 in one commit, delete 100 in another", per_transaction=100, mode="simple", fill=400000)
    pgbench(rep, "swap100", "swap100.sql", 4, "jobs/s", "4 clients, delete the last 100 and claim the next 100 in one statement and commit", per_transaction=100, mode="simple", fill=400000)
    pgbench(rep, "insert_100_per_commit", "insert100.sql", 4, "rows/s", "4 clients, 100 rows per commit", per_transaction=100)
    pgbench(rep, "insert_single_notify", "insert1_notify.sql", 32, "rows/s", "32 clients, one row per commit plus pg_notify in the same transaction")

    def fsync(output):
        rate = float(re.search(r"one 8kB write:.*?\n\s+fdatasync\s+([\d.]+) ops", output, re.S).group(1))
        return figure("disk (pg_test_fsync)", "fdatasync_8k", rate, "ops/s", "one 8 kB write + fdatasync")
    measure(rep, [f"{PG_BIN}/pg_test_fsync", "-s", "1", "-f", f"{WORK}/fsynctest"], parse=fsync, postgres=False)
    measure(rep, [sys.executable, f"{HERE}/py/limits.py"], postgres=False)
    with Server([f"{RUST}/hello", "18088"], port_open(18088)) as server:
        for metric, path, extra in (("http_get", "", []), ("http_post_json", "echo", ["-s", f"{HERE}/sql/post.lua"])):
            def wrk(output, metric=metric):
                rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
                return figure("axum hello (wrk)", metric, rate, "req/s", "wrk -t2 -c64, same two cores")
            command = ["wrk", "-t2", "-c64", "-d6s", *extra, f"http://127.0.0.1:18088/{path}"]
            measure(rep, command, postgres=False, servers=[server], parse=wrk)


PG = {"BACKEND": "pg"}
ALL = {
    "limits": limits,
    "baton_sqlite": baton("sqlite"),
    "bull_always": bull("always", 56380),
    "graphile_rs": rust("graphile_driver", BASIC),
    "graphile_rs_100k": rust("graphile_driver", [("drain", N100)]),
    "baton_postgres": baton("postgres"),
    "underway": rust("underway_driver", [("enqueue_bulk", N20), ("enqueue_one", N5), ("drain", N5), ("latency", {})]),
    "apalis": rust("apalis_driver", BASIC),
    "pgboss": node("pgboss.mjs", BASIC),
    "graphile": node("graphile.mjs", [*BASIC, ("drain_plain", N5)]),
    "graphile_100k": node("graphile.mjs", [("drain", N100)]),
    "bull_everysec": bull("everysec", 56379),
    "bull_pg": node("bullmq.mjs", [(mode, {**env, **PG}) for mode, env in BASIC]),
    "dbos": python("dbos_driver.py", [
        ("enqueue_bulk", N5), ("enqueue_one", N5), ("drain", N5), ("wf3", {"N": "2000"}), ("drain_wf3", {"N": "2000"}),
        ("drain_wf3", {"N": "2000", "WC": "32", "POOL": "5", "THREADS": "4", "METRIC": "wf3_queue_4threads"}),
        ("latency", {})]),
    "procrastinate": python("procrastinate_driver.py", [("enqueue_bulk", N20), ("enqueue_one", N5), ("drain", N5), ("latency", {})]),
    "restate": restate,
    "beanstalkd": beanstalkd,
}
