"""The faults: what each does to the world, and how it is healed. A seed decides which come, to whom
and for how long."""

from dataclasses import dataclass
from typing import Callable

HOLD_S = (0.5, 9.0)
STAGGER_S = 1.0
CLOCK_S_MAX = 24 * 3600


@dataclass
class Fault:
    kind: str
    text: str
    begin: Callable
    end: Callable
    # Processes that a second fault of the same round has to leave alone.
    victims: tuple = ()


class Rules:
    """Rules of the network that are made when the fault begins and removed when it ends."""

    def __init__(self, network, make):
        self.network, self.make, self.made = network, make, []

    def begin(self):
        self.made = self.make()

    def end(self):
        self.network.heal(self.made)


def of_network(world, kind, text, make):
    rules = Rules(world.network, make)
    return Fault(kind, text, rules.begin, rules.end)


def path(world, dice):
    """Two hosts that talk to each other."""
    paths = [(client, server) for server in world.servers for client in world.client_hosts]
    if world.postgres:
        # As often as all others together: most is at stake there.
        paths += [(server, "db") for server in world.servers] * len(world.client_hosts)
    return dice.choice(paths)


def cut(world, dice):
    one, other = path(world, dice)
    return of_network(
        world, "cut", f"{one} and {other}", lambda: world.network.cut_both(one, other)
    )


def one_way(world, dice):
    ends = list(path(world, dice))
    dice.shuffle(ends)
    sender, receiver = ends
    return of_network(
        world,
        "one_way",
        f"from {sender} to {receiver}",
        lambda: world.network.cut(sender, receiver),
    )


def isolate(world, dice):
    host = dice.choice([*world.servers, *world.client_hosts, *(["db"] if world.postgres else [])])
    return of_network(world, "isolate", host, lambda: world.network.isolate(host))


def loss(world, dice):
    host = dice.choice([host for host in world.network.hosts if host != "watch"])
    percent = dice.choice([5, 10, 20, 40])
    return of_network(
        world, "loss", f"{percent} % at {host}", lambda: world.network.lose(host, percent)
    )


def dead_connection(world, dice):
    """Connections of a server to the database fall silent; new ones work."""
    server, share = dice.choice(list(world.servers)), dice.choice([0.0, 0.5, 1.0])
    pick = dice.random()

    def make():
        ports = world.network.connections(server, world.postgres.PORT)
        count = max(1, round(len(ports) * share))
        first = int(pick * len(ports))
        chosen = (ports + ports)[first : first + min(count, len(ports))]
        return world.network.cut_connections(server, "db", chosen)

    return of_network(world, "dead_connection", f"{share:.0%} of {server}, at least one", make)


def of_process(kind, processes, begin, end):
    names = tuple(process.name for process in processes)

    def each(act):
        return lambda: [act(process) for process in processes]

    return Fault(kind, ", ".join(names), each(begin), each(end), names)


def kill(kind, processes):
    return of_process(kind, processes, lambda one: one.kill(), lambda one: one.start())


def stop(kind, processes):
    return of_process(kind, processes, lambda one: one.stop(), lambda one: one.go_on())


def some_clients(world, dice):
    return dice.sample(world.victims, dice.randint(1, 3))


def clock(world, dice):
    """A wall clock jumps, and stays wrong."""
    name = dice.choice(list(world.clocks))
    seconds = int(dice.choice([-1, 1]) * CLOCK_S_MAX ** dice.random())
    return Fault(
        "clock", f"{name} {seconds:+d} s", lambda: world.clocks[name].set(seconds), lambda: None
    )


ON_ANY_STORE = {
    "cut": cut,
    "one_way": one_way,
    "isolate": isolate,
    "loss": loss,
    "kill_server": lambda world, dice: kill(
        "kill_server", [dice.choice(list(world.servers.values()))]
    ),
    "stop_server": lambda world, dice: stop(
        "stop_server", [dice.choice(list(world.servers.values()))]
    ),
    "kill_clients": lambda world, dice: kill("kill_clients", some_clients(world, dice)),
    "stop_clients": lambda world, dice: stop("stop_clients", some_clients(world, dice)),
}
# With SQLite the server's clock is the store's, which must be right.
ON_POSTGRES = {
    **ON_ANY_STORE,
    "dead_connection": dead_connection,
    "kill_database": lambda world, dice: kill("kill_database", [world.postgres]),
    "stop_database": lambda world, dice: stop("stop_database", [world.postgres]),
    "clock": clock,
}


def next_round(world, dice, kinds):
    """One to three faults, each with when it begins and ends, in seconds from now."""
    planned, taken = [], set()
    for _ in range(dice.choice([1, 1, 1, 2, 2, 3])):
        fault = kinds[dice.choice(list(kinds))](world, dice)
        begin, hold = dice.uniform(0, STAGGER_S), dice.uniform(*HOLD_S)
        if taken.isdisjoint(fault.victims):
            taken.update(fault.victims)
            planned.append((begin, begin + hold, fault))
    return planned
