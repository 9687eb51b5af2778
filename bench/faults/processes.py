"""Processes on hosts: started, killed with kill -9, stopped, continued, and ended with this one."""

import ctypes
import glob
import os
import pwd
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
# What ends by itself is not started again sooner than this after its last start.
RESTART_S = 0.5


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """One process with a name. It can be started again after it was killed."""

    def __init__(self, network, name, host, command, log, environment=None):
        self.network, self.name, self.host = network, name, host
        self.command, self.log = command, log
        self.environment = {**os.environ, **(environment or {})}
        # `is_wanted` between a start and a kill: then it has no business to end.
        self.child, self.is_wanted, self.log_begins, self.started = None, False, 0, 0.0

    def start(self):
        self._remove_shared_memory()
        self.is_wanted, self.started = True, time.monotonic()
        with open(self.log, "ab") as log:
            self.log_begins = log.tell()
            # In a session of its own: a Ctrl-C is for the driver, which ends everybody in order.
            self.child = subprocess.Popen(
                self.network.inside(self.host, *self.command),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )

    def is_alive(self):
        return self.child is not None and self.child.poll() is None

    def is_to_be_restarted(self):
        """It has ended by itself, and was not started a moment ago."""
        ended = self.is_wanted and self.child is not None and self.child.poll() is not None
        return ended and time.monotonic() > self.started + RESTART_S

    def has_logged(self, text):
        """Since it was started last."""
        with open(self.log, errors="replace") as log:
            log.seek(self.log_begins)
            return text in log.read()

    def kill(self):
        self.is_wanted = False
        self._signal_all(signal.SIGKILL)
        if self.child is not None:
            self.child.wait()
            self._remove_shared_memory()

    def stop(self):
        self._signal_all(signal.SIGSTOP)

    def go_on(self):
        self._signal_all(signal.SIGCONT)

    def terminate(self, patience_s=10):
        """Asks it to end, and kills it when it does not."""
        self.is_wanted = False
        if self.is_alive():
            self.child.terminate()
            try:
                self.child.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def _remove_shared_memory(self):
        """libfaketime has no time to do so when its process is killed."""
        for left in glob.glob(f"/dev/shm/*faketime_s*_{self.child.pid}") if self.child else []:
            os.unlink(left)

    def _signal_all(self, number):
        """The process and all it started: a database has a process for each connection."""
        if not self.is_alive():
            return
        for pid in [self.child.pid, *descendants(self.child.pid)]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def descendants(pid):
    parents = {}
    for entry in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(entry) as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.split("/")[2]))
    found, look = [], [pid]
    while look:
        children = parents.get(look.pop(), [])
        found += children
        look += children
    return found


class Postgres(Process):
    """A PostgreSQL with the default settings, that is: every commit flushed."""

    PORT = 5432

    def __init__(self, network, host, directory):
        programs = os.environ["PGBIN"]
        data = os.path.join(directory, "postgres")
        user = pwd.getpwnam("postgres")
        os.mkdir(data)
        os.chown(data, user.pw_uid, user.pw_gid)
        address = network.hosts[host]
        as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        subprocess.run(
            [*as_postgres, f"{programs}/initdb", "-D", data, "-A", "trust", "-U", "postgres"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=directory,
        )
        with open(f"{data}/pg_hba.conf", "a") as hba:
            hba.write("host all all samenet trust\n")
        command = [
            *as_postgres,
            "--pdeathsig=KILL",
            f"{programs}/postgres",
            "-D",
            data,
            "-c",
            f"listen_addresses={address}",
            "-c",
            "unix_socket_directories=",
            "-c",
            f"port={self.PORT}",
        ]
        super().__init__(
            network, "postgres", host, command, os.path.join(directory, "postgres.log")
        )
        self.url = f"postgres://postgres@{address}:{self.PORT}/postgres"
        self._ready = network.inside(
            host, f"{programs}/pg_isready", "-q", "-h", address, "-p", str(self.PORT)
        )

    def start(self, patience_s=60):
        """Returns when it takes connections."""
        deadline = time.monotonic() + patience_s
        super().start()
        while subprocess.run(self._ready).returncode != 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start; see {self.log}")
            # A process of the killed one may keep the shared memory for a moment longer.
            if not self.is_alive():
                super().start()
            time.sleep(0.05)

    def shut_down(self):
        """Ends it in order, so that it leaves no shared memory behind."""
        self.go_on()
        self.is_wanted = False
        if self.is_alive():
            self.child.send_signal(signal.SIGINT)
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


class Clock:
    """A wall clock that can be wrong, for the processes that are started with its environment."""

    def __init__(self, path):
        self.path = path
        self.set(0)

    def set(self, seconds):
        with open(self.path + ".new", "w") as file:
            file.write(f"{seconds:+d}s\n")
        os.rename(self.path + ".new", self.path)

    def environment(self):
        libraries = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not libraries:
            raise RuntimeError("libfaketime is missing: install the package libfaketime")
        return {
            "LD_PRELOAD": libraries[0],
            "FAKETIME_TIMESTAMP_FILE": self.path,
            "FAKETIME_CACHE_DURATION": "1",
            # A clock that is set does not move the time that a process measures.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
