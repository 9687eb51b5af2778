#!/usr/bin/env python3
"""Measures everybody in ONLY, REPS times in turn, so that a slow minute of the machine meets all of them."""
import os
import subprocess
import sys
import time

from catalogue import ALL

ONLY = os.environ["ONLY"].split(",")
REPS, FIRST_REP = int(os.environ["REPS"]), int(os.environ.get("FIRST_REP", 1))

unknown = [name for name in ONLY if name not in ALL]
if unknown:
    sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(ALL)}")
for rep in range(FIRST_REP, FIRST_REP + REPS):
    for name in (name for name in ALL if name in ONLY):
        print(f"rep {rep} {name}", time.strftime("%H:%M:%S"), flush=True)
        try:
            ALL[name](rep)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print("  ERROR", name, repr(error), flush=True)
