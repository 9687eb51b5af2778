"""Everything that runs: hosts, PostgreSQL, servers, clients."""

import http.client
import json
import os
import sys
import time
from email.utils import parsedate_to_datetime

from .network import Network
from .processes import Clock, Postgres, Process

PORT = 7400
LEASE_TTL_MS = 4_000
HEARTBEAT_MS = 1_000
CANCEL_GRACE_MS = 2_000
TENANTS = ["red", "blue"]
QUEUES = ["fast", "slow"]
TYPES = ["alpha", "beta", "gamma"]
# Every kind of worker, with types that overlap: what one must not get, another one takes.
WORKERS = [
    {"numbered": True, "tells_all": False, "types": ["alpha", "beta"]},
    {"numbered": False, "tells_all": False, "types": ["beta", "gamma"]},
    {"numbered": True, "tells_all": True, "types": ["alpha", "gamma"]},
]
START_S = 60
# What a server says when it has started.
LISTENS = "Baton listens on"


class World:
    def __init__(self, directory, store, seed, baton):
        self.directory, self.seed, self.baton = directory, seed, baton
        self.client_hosts = ["work-1", "work-2", "submit"]
        names = ["server-a", "server-b"] if store == "postgres" else ["server-a"]
        database = ["db"] if store == "postgres" else []
        self.network = Network([*database, *names, *self.client_hosts, "watch"])
        self.postgres, self.servers, self.clocks, self.processes = None, {}, {}, []
        # The client processes that faults may hit; probes only measure.
        self.victims, self.histories, self.effects = [], [], []
        try:
            if store == "postgres":
                self.postgres = self._add(Postgres(self.network, "db", directory))
            for name in names:
                self.servers[name] = self._add(self._server(name, f"{name[-1]}"))
            self.network.enter("watch")
        except BaseException:
            self.remove()
            raise

    def _add(self, process):
        self.processes.append(process)
        return process

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _clock(self, name):
        """With SQLite a server's clock is the store's: it is left alone."""
        if self.postgres is None:
            return {}
        self.clocks[name] = Clock(self._path(f"{name}.clock"))
        return self.clocks[name].environment()

    def _server(self, name, short):
        command = [
            self.baton,
            "serve",
            "--data",
            self._path(f"data-{short}"),
            "--listen",
            f"{self.network.hosts[name]}:{PORT}",
        ]
        if self.postgres:
            command += ["--database", self.postgres.url]
        environment = {
            "BATON_LEASE_TTL_MS": str(LEASE_TTL_MS),
            "BATON_HEARTBEAT_INTERVAL_MS": str(HEARTBEAT_MS),
            "BATON_CANCEL_GRACE_MS": str(CANCEL_GRACE_MS),
            "BATON_LOG_FORMAT": "json",
            # Servers of one database need the same one.
            "BATON_MASTER_KEY": "bmk_" + "0" * 52,
        }
        return Process(
            self.network,
            name,
            name,
            command,
            self._path(f"{name}.log"),
            {**environment, **self._clock(name)},
        )

    def addresses(self):
        return [[name, self.network.hosts[name], PORT] for name in self.servers]

    def start_servers(self):
        """Starts the database and the servers, and returns the admin key."""
        if self.postgres:
            self.postgres.start()
        for number, (name, server) in enumerate(self.servers.items()):
            server.start()
            self._wait_ready(name)
            if number == 0:
                with open(self._path("data-a/admin.key")) as file:
                    key = file.read().strip()
        self._check_clocks()
        return key

    def _wait_ready(self, name):
        deadline = time.monotonic() + START_S
        while self._ask(name, "/readyz") is None:
            if time.monotonic() > deadline or not self.servers[name].is_alive():
                raise RuntimeError(f"{name} did not start; see {self.servers[name].log}")
            time.sleep(0.05)

    def _ask(self, name, path):
        connection = http.client.HTTPConnection(self.network.hosts[name], PORT, timeout=2)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            return answer if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _check_clocks(self):
        """A program that is linked statically would not see the wrong clock."""
        for name in [name for name in self.clocks if name in self.servers]:
            self.clocks[name].set(7200)
            deadline = time.monotonic() + 10
            while self._clock_error(name) < 3600:
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"the clock of {name} cannot be moved: is {self.baton} linked statically?"
                    )
                time.sleep(0.2)
            self.clocks[name].set(0)

    def _clock_error(self, name):
        answer = self._ask(name, "/readyz")
        if answer is None:
            return 0
        return parsedate_to_datetime(answer.getheader("date")).timestamp() - time.time()

    def start_clients(self, keys):
        """`keys` has an API key for each tenant, good for its namespace alone."""
        for tenant in TENANTS:
            for host in ("work-1", "work-2"):
                for number, kind in enumerate(WORKERS):
                    self._client(
                        f"worker-{tenant}-{host}-{number}",
                        host,
                        keys,
                        tenant,
                        kind="worker",
                        queues=QUEUES,
                        beat_s=HEARTBEAT_MS / 1000,
                        **kind,
                    )
            self._client(
                f"submitter-{tenant}",
                "submit",
                keys,
                tenant,
                kind="submitter",
                queues=QUEUES,
                types=TYPES,
                per_second=10,
            )
            self._client(f"starter-{tenant}", "submit", keys, tenant, kind="starter", per_second=1)
            for number, server in enumerate(self.servers):
                self._workflow_worker(
                    f"flow-{tenant}-{server}", f"work-{number + 1}", server, keys[tenant], tenant
                )
        for host in ("work-1", "work-2"):
            self._client(f"probe-{host}", host, keys, TENANTS[0], is_victim=False, kind="probe")
        for process in self.processes:
            if not process.is_alive():
                process.start()

    def _client(self, name, host, keys, tenant, is_victim=True, **settings):
        history = self._path(f"{name}.history")
        self.histories.append(history)
        settings |= {
            "name": name,
            "host": host,
            "history": history,
            "seed": self.seed,
            "servers": self.addresses(),
            "key": keys[tenant],
            "namespace": tenant,
            "baton": self.baton,
        }
        command = [sys.executable, "-m", "faults.clients", json.dumps(settings)]
        process = self._add(Process(self.network, name, host, command, self._path(f"{name}.log")))
        if is_victim:
            self.victims.append(process)

    def _workflow_worker(self, name, host, server, key, tenant):
        """The SDK's worker, on the stream of the gRPC service."""
        effects = self._path(f"{name}.effects")
        open(effects, "w").close()
        self.effects.append(effects)
        environment = {
            "BATON_URL": f"http://{self.network.hosts[server]}:{PORT}",
            "BATON_API_KEY": key,
            **self._clock(name),
        }
        command = [self.baton, "bench-worker", "--effects", effects, "--namespace", tenant]
        self.victims.append(
            self._add(
                Process(self.network, name, host, command, self._path(f"{name}.log"), environment)
            )
        )

    def restart_ended(self):
        """Starts what has ended by itself, as a service manager does. Yields those that should not
        have: a server may end when it cannot reach its database at the start, and only then."""
        for process in self.processes:
            if process.is_to_be_restarted():
                if process.name not in self.servers or process.has_logged(LISTENS):
                    yield process
                process.start()

    def named(self, beginning):
        return [process for process in self.processes if process.name.startswith(beginning)]

    def remove(self):
        for process in self.processes:
            if process is not self.postgres:
                process.kill()
        if self.postgres:
            self.postgres.shut_down()
        self.network.remove()
