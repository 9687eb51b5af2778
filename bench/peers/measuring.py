"""Runs one driver on a quiet machine and appends its JSON lines to RESULTS.

Each line gets: rep; foreign, the mean share of the processors used by processes that are not part of the measurement;
disk_us, what a flush took just before; cpu, the cores used by the driver and by the servers.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.environ["BENCH_WORK"]
PG_DATA = os.environ["BENCH_PG_DATA"]
PG_PORT = os.environ["BENCH_PG_PORT"]
PG_BIN = os.environ["PGBIN"]
PG_URL = f"postgres://postgres@127.0.0.1:{PG_PORT}/bench"
RESULTS = os.environ["RESULTS"]
QUIET_WAIT = float(os.environ["QUIET_WAIT"])
NODE = f"{WORK}/node/node_modules/.bin/node"
PYTHON = f"{WORK}/py/bin/python"
RUST = f"{WORK}/peers/release"
TICKS, CPUS = os.sysconf("SC_CLK_TCK"), os.cpu_count()


def busy():
    """CPU seconds that the machine has not been idle."""
    times = list(map(int, open("/proc/stat").readline().split()[1:9]))
    return (sum(times) - times[3] - times[4]) / TICKS


def tree_cpu(pids):
    """CPU seconds of these processes, their live descendants, and the children they have reaped."""
    known, children = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        known[int(pid)] = sum(map(int, fields[11:15])) / TICKS
        children.setdefault(int(fields[1]), []).append(int(pid))
    total, todo, seen = 0.0, [pid for pid in pids if pid in known], set()
    while todo:
        pid = todo.pop()
        if pid not in seen:
            seen.add(pid)
            total += known[pid]
            todo += children.get(pid, [])
    return total


def wait_quiet():
    end = time.time() + QUIET_WAIT
    while time.time() < end:
        before = busy()
        time.sleep(1)
        if busy() - before < 0.15 * CPUS:
            return


def disk_us():
    """Mean microseconds of an 8 kB write + fdatasync: shows when the disk is shared."""
    file, page = os.open(f"{WORK}/probe", os.O_RDWR | os.O_CREAT), b"x" * 8192

    def flush(times):
        for _ in range(times):
            os.pwrite(file, page, 0)
            os.fdatasync(file)

    flush(20)
    begun = time.perf_counter()
    flush(200)
    took = time.perf_counter() - begun
    os.close(file)
    return round(took / 200 * 1e6)


def psql(database, *arguments):
    command = ["psql", "-h", "127.0.0.1", "-p", PG_PORT, "-U", "postgres", "-d", database, "-qAt", *arguments]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def fresh_database():
    for sql in ("drop database if exists bench with (force)", "create database bench", "checkpoint"):
        psql("postgres", "-c", sql)


class Server:
    """A server process started for one measurement and stopped by its pid."""

    def __init__(self, command, ready, cwd=None):
        self.command, self.ready, self.cwd = command, ready, cwd

    def __enter__(self):
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(self.command, cwd=self.cwd, stdout=quiet, stderr=quiet, start_new_session=True)
        for _ in range(150):
            time.sleep(0.1)
            if self.ready():
                return self
        raise RuntimeError(f"{self.command[0]} is not ready")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def port_open(port):
    def ready():
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return True
        except OSError:
            return False
    return ready


def http_ok(url):
    def ready():
        try:
            return urllib.request.urlopen(url, timeout=0.5).status == 200
        except OSError:
            return False
    return ready


def fresh_directory(name):
    path = f"{WORK}/{name}"
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def measure(rep, command, env=None, servers=(), parse=None, timeout=300, postgres=True, filled=False):
    """Runs a driver and records its lines. `parse` makes lines of other output; a `filled` database is left alone."""
    if postgres and not filled:
        fresh_database()
    wait_quiet()
    disk = disk_us()
    pids = [server.process.pid for server in servers] + ([POSTMASTER] if postgres else [])
    busy_before, servers_before, driver_before = busy(), tree_cpu(pids), sum(os.times()[2:4])
    begun = time.time()
    variables = {**os.environ, "PEER_PG_URL": PG_URL, "PEER_WORK": WORK, **(env or {})}
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        print("  timeout:", " ".join(command), flush=True)
        return
    time.sleep(0.3)  # let the backends be reaped, so that their CPU time is accounted once
    used_by_servers, used_by_driver = tree_cpu(pids) - servers_before, sum(os.times()[2:4]) - driver_before
    took = time.time() - begun
    foreign = max(0, busy() - busy_before - used_by_servers - used_by_driver) / (took * CPUS)
    try:
        lines = parse(done.stdout) if parse else [json.loads(l) for l in done.stdout.splitlines() if l.startswith("{")]
    except (AttributeError, ValueError) as error:
        lines = []
        print("  not understood:", error, flush=True)
    if not lines:
        print("  FAILED:", " ".join(command), done.returncode, done.stderr[-500:], flush=True)
    cpu = [round(used_by_driver / took, 2), round(used_by_servers / took, 2)]
    with open(RESULTS, "a") as results:
        for line in lines:
            line.update(rep=rep, foreign=round(foreign, 3), disk_us=disk, cpu=cpu)
            results.write(json.dumps(line) + "\n")
            print(f"  {line['peer']}: {line['metric']} = {line['value']:,.1f} {line['unit']}"
                  f"  [foreign CPU {foreign:.0%}, fdatasync {disk} us]", flush=True)


def figure(peer, metric, value, unit, settings):
    return [{"peer": peer, "metric": metric, "value": value, "unit": unit, "settings": settings}]


if os.path.realpath(psql("postgres", "-c", "show data_directory")) != os.path.realpath(PG_DATA):
    sys.exit(f"port {PG_PORT} belongs to another PostgreSQL; set BENCH_PG_PORT")
POSTMASTER = int(open(f"{PG_DATA}/postmaster.pid").readline())
