"""The command: see bench/partitions."""

import argparse
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile

from . import dead_connection, partitions
from .faults import ON_POSTGRES
from .network import remove_left_behind
from .world import World

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def arguments():
    parser = argparse.ArgumentParser(
        prog="bench/partitions",
        description="Two servers on one PostgreSQL, in network namespaces, under seeded faults: "
        "partitions, loss, kill -9, SIGSTOP, wrong clocks. What the clients saw is "
        "checked. Ends with 1 when a promise was broken.",
    )
    parser.add_argument(
        "--seconds", type=int, default=1200, help="how long faults come [default: 1200]"
    )
    parser.add_argument(
        "--seed", type=int, help="decides which faults come, and when [default: random]"
    )
    parser.add_argument(
        "--store",
        choices=["postgres", "sqlite"],
        default="postgres",
        help="sqlite has one server, and its clock stays right [default: postgres]",
    )
    parser.add_argument(
        "--only",
        metavar="KINDS",
        help=f"some faults only, with commas: {', '.join(ON_POSTGRES)}. "
        "dead_connection alone measures the longest stall",
    )
    parser.add_argument("--keep", action="store_true", help="keep logs and histories in any case")
    return parser.parse_args()


def main():
    args = arguments()
    seed = secrets.randbelow(1 << 32) if args.seed is None else args.seed
    for number in INTERRUPTS:
        signal.signal(number, lambda *_: sys.exit("interrupted"))
    remove_left_behind()
    directory = tempfile.mkdtemp(prefix="partitions-", dir=os.environ["BENCH_WORK"])
    os.chmod(directory, 0o755)
    world, is_good = None, False
    try:
        world = World(directory, args.store, seed, os.environ["BATON"])
        dice = random.Random(seed)
        if args.only == "dead_connection":
            is_good = dead_connection.play(world, dice)
        else:
            only = args.only.split(",") if args.only else None
            is_good = partitions.play(world, dice, args.seconds, only)
    finally:
        # A second Ctrl-C must not leave half of it behind.
        for number in INTERRUPTS:
            signal.signal(number, signal.SIG_IGN)
        if world is not None:
            world.remove()
        if is_good and not args.keep:
            shutil.rmtree(directory)
        else:
            print(f"logs and histories are in {directory}", file=sys.stderr)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
