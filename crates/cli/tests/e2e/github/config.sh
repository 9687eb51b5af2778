#!/bin/sh
# What GitHub's config.sh does, as far as the tests can see. OUT is the tests' directory.
[ ! -e .runner ] || { echo "Cannot configure the runner because it is already configured." >&2; exit 1; }
[ "$ACTIONS_RUNNER_INPUT_TOKEN" = AREGISTRATIONTOKEN ] || { echo "Http response code: NotFound" >&2; exit 1; }
echo "$*" >> OUT/configured
echo "configured" > .runner
