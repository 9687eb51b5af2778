# Sourced by the scripts of this directory: what they need, and where it goes.
#
# Everything that is downloaded, built or measured goes under BENCH_WORK, outside of the repository.
set -euo pipefail
bench=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(dirname "$bench")
export BENCH_WORK=${BENCH_WORK:-${TMPDIR:-/tmp}/baton-bench}
export BENCH_PG_DATA=${BENCH_PG_DATA:-$BENCH_WORK/postgres/data} BENCH_PG_PORT=${BENCH_PG_PORT:-55433}
# Python would leave its own files next to the scripts.
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$BENCH_WORK"
# PostgreSQL runs as a user of its own and has to get to its directory.
chmod 755 "$BENCH_WORK"

install() {
  [ -n "${packages_are_fresh:-}" ] || apt-get update -qq >/dev/null
  packages_are_fresh=1
  echo "installing $1" >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null
}

# need PROGRAM PACKAGE: installs the package unless the program is there.
need() {
  command -v "$1" >/dev/null || install "$2"
}

find_postgres() {
  ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1
}

# A private cluster with default settings, but for the two that every peer got as well.
start_postgres() {
  export PGBIN=${PGBIN:-$(find_postgres)}
  if [ ! -x "$PGBIN/pgbench" ]; then
    install postgresql
    PGBIN=$(find_postgres)
  fi
  local home
  home=$(dirname "$BENCH_PG_DATA")
  if [ ! -d "$BENCH_PG_DATA" ]; then
    mkdir -p "$home"
    chown postgres "$home"
    su postgres -c "$PGBIN/initdb -D $BENCH_PG_DATA -A trust -U postgres" >/dev/null
    cat >> "$BENCH_PG_DATA/postgresql.conf" <<SETTINGS
port = $BENCH_PG_PORT
listen_addresses = '127.0.0.1'
unix_socket_directories = '$home'
shared_buffers = 1GB
max_connections = 200
SETTINGS
  fi
  if ! su postgres -c "$PGBIN/pg_ctl -D $BENCH_PG_DATA status" >/dev/null 2>&1; then
    su postgres -c "$PGBIN/pg_ctl -w -D $BENCH_PG_DATA -l $home/log start" >/dev/null
    trap stop_postgres EXIT
  fi
  export BATON_BENCH_DATABASE_URL=postgres://postgres@127.0.0.1:$BENCH_PG_PORT/postgres
}

stop_postgres() {
  su postgres -c "$PGBIN/pg_ctl -w -m fast -D $BENCH_PG_DATA stop" >/dev/null || true
}

# The program to be measured: BATON if given, otherwise built from this repository.
build_baton() {
  if [ -z "${BATON:-}" ]; then
    need cc build-essential
    (cd "$repository" && CARGO_TARGET_DIR="$BENCH_WORK/baton" cargo build --release --locked --quiet -p baton-cli)
    BATON=$BENCH_WORK/baton/release/baton
  fi
  export BATON
}
