#!/bin/sh
# What GitHub's runner does, as far as the tests can see: it wants to be configured, says that it listens, does one job, and ends. OUT is the tests' directory.
config=$ACTIONS_RUNNER_INPUT_JITCONFIG
[ ! -e .runner ] || config=$(cat .runner)
[ -n "$config" ] || { echo "Not configured. Run config.(sh/cmd) to configure the runner." >&2; exit 1; }
echo "√ Connected to GitHub"
# In one write each, so that whoever reads does not see half of it.
echo "$config $$" >> OUT/started
echo "2026-01-01 00:00:00Z: Listening for Jobs"
until mv OUT/job "OUT/done-$$" 2> /dev/null; do sleep 0.02; done
rm -f .runner
echo "2026-01-01 00:00:00Z: Job test completed with result: Succeeded"
