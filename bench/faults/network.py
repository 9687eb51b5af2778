"""Hosts that are network namespaces, joined by a bridge in one more. Nothing outside is reachable.

Every fault of the network is a rule of nftables that drops packets where they arrive: no RST, no
ICMP, just silence, as with a cable that is pulled.
"""

import ctypes
import os
import re
import subprocess

SUBNET = "10.213.0"
PREFIX = "baton-faults"
CLONE_NEWNET = 0x40000000


def run(*command, given=None, check=True):
    done = subprocess.run(command, input=given, text=True, capture_output=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def remove_left_behind():
    """Removes namespaces of runs whose process was killed before it could."""
    for name in run("ip", "netns", "list").split():
        owner = re.match(rf"{PREFIX}-(\d+)-", name)
        if owner and not os.path.exists(f"/proc/{owner[1]}"):
            run("ip", "netns", "del", name, check=False)


class Network:
    def __init__(self, hosts):
        self.hosts = {host: f"{SUBNET}.{number}" for number, host in enumerate(hosts, start=2)}
        self.rules = {host: [] for host in hosts}
        self.made = []
        try:
            self._build()
        except BaseException:
            self.remove()
            raise

    def _build(self):
        hub = self._add("hub")
        run("ip", "-n", hub, "link", "add", "bridge0", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "bridge0", "up")
        for host, address in self.hosts.items():
            name, port = self._add(host), f"to-{host}"
            run(
                "ip",
                "-n",
                hub,
                "link",
                "add",
                port,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
            run("ip", "-n", hub, "link", "set", port, "master", "bridge0", "up")
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            chain = "type filter hook input priority 0;"
            run(
                *self.inside(host, "nft", "-f", "-"),
                given=f"table inet faults {{\n chain arrives {{\n {chain}\n }}\n}}\n",
            )

    def _add(self, host):
        name = self.namespace(host)
        run("ip", "netns", "add", name)
        self.made.append(name)
        return name

    def namespace(self, host):
        return f"{PREFIX}-{os.getpid()}-{host}"

    def inside(self, host, *command):
        """The command line that runs this command on that host."""
        return ["ip", "netns", "exec", self.namespace(host), *command]

    def enter(self, host):
        """Moves this thread, and all that it starts, to that host."""
        with open(f"/run/netns/{self.namespace(host)}") as namespace:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def remove(self):
        for name in self.made:
            run("ip", "netns", "del", name, check=False)
        self.made = []

    # Each of these returns the rules it made, for `heal`. Rules of several faults add up.

    def cut(self, sender, receiver):
        """Nothing that the one sends gets to the other. The other direction works on."""
        return self._drop(receiver, f"ip saddr {self.hosts[sender]} drop")

    def cut_both(self, one, other):
        return self.cut(one, other) + self.cut(other, one)

    def isolate(self, host):
        others = [other for other in self.hosts if other != host]
        return [rule for other in others for rule in self.cut_both(host, other)]

    def lose(self, host, percent):
        """So many of a hundred packets that arrive at the host are lost."""
        return self._drop(host, f"numgen random mod 100 < {percent} drop")

    def cut_connections(self, client, server, ports):
        """What connections of these ports of the client send is lost; new ones work."""
        if not ports:
            return []
        several = "{ " + ", ".join(map(str, ports)) + " }"
        there = self._drop(server, f"ip saddr {self.hosts[client]} tcp sport {several} drop")
        back = self._drop(client, f"ip saddr {self.hosts[server]} tcp dport {several} drop")
        return there + back

    def heal(self, rules):
        for host, rule in rules:
            self.rules[host].remove(rule)
        for host in {host for host, _ in rules}:
            self._apply(host)

    def connections(self, client, server_port):
        """Local ports of the client's established connections to this port, oldest first."""
        listed = run(
            *self.inside(
                client, "ss", "-Htn", "state", "established", f"( dport = :{server_port} )"
            )
        )
        return [int(line.split()[2].rpartition(":")[2]) for line in listed.splitlines()]

    def _drop(self, host, rule):
        self.rules[host].append(rule)
        self._apply(host)
        return [(host, rule)]

    def _apply(self, host):
        script = "flush chain inet faults arrives\n"
        script += "".join(f"add rule inet faults arrives {rule}\n" for rule in self.rules[host])
        run(*self.inside(host, "nft", "-f", "-"), given=script)
