-- Cold: what was submitted of a build besides its run. outcome is the state in which it ended, once that is counted in build_totals.
create table builds (
    run_id blob primary key,
    namespace text not null,
    platform text not null,
    project text,
    key_id text,
    source_id blob,
    certs_id blob,
    slug text,
    version text,
    url text,
    reference text,
    image text,
    base_image text,
    outcome integer
) without rowid;
create index builds_by_namespace on builds (namespace, run_id);
-- Those that have not ended, and those that ended and are not counted yet.
create index builds_open on builds (run_id) where outcome is null;

-- How many builds ended how, ever.
create table build_totals (
    namespace text not null,
    outcome integer not null,
    builds integer not null,
    primary key (namespace, outcome)
) without rowid;

-- Hot: what grows while a build runs. Its lock gives lines and measurements their numbers.
create table build_progress (
    run_id blob primary key,
    log_lines integer not null default 0,
    log_bytes integer not null default 0,
    log_full integer not null default 0,
    log_at integer,
    measured integer not null default 0
) without rowid;

-- Lines of a log, in chunks. last is the number of a chunk's last line, bytes_before what stands in the log before it; body is
-- JSON: [[level, message, when or null], ...].
create table log_chunks (
    run_id blob not null,
    last integer not null,
    lines integer not null,
    bytes_before integer not null,
    at integer not null,
    body text not null,
    primary key (run_id, last)
);

-- Files in storage. kind: 0 source, 1 certs, 2 result. uses: how many builds need it; a result is needed once its lease has
-- completed the build. doomed_at: given up, to be removed.
create table artifacts (
    artifact_id blob primary key,
    namespace text not null,
    run_id blob,
    kind integer not null,
    epoch integer not null,
    uses integer not null default 0,
    created_at integer not null,
    doomed_at integer,
    size integer,
    sha256 blob,
    name text not null,
    path text not null
) without rowid;
create index artifacts_by_run on artifacts (run_id) where run_id is not null;
create index artifacts_unused on artifacts (created_at, artifact_id) where uses = 0;

-- Bytes of stored files.
create table artifact_totals (
    namespace text primary key,
    bytes integer not null
) without rowid;

-- Builders of the polling protocols. token: the number of the newest one that was given out.
create table builders (
    namespace text not null,
    name_id text not null,
    worker_id blob not null unique,
    replaced_id blob,
    key_id text,
    token integer not null,
    first_token integer not null,
    token_used integer not null,
    token_until integer not null,
    registered_at integer not null,
    revoked_at integer,
    succeeded integer not null default 0,
    failed integer not null default 0,
    primary key (namespace, name_id)
) without rowid;

-- Virtual machines, one for each lease.
create table machines (
    run_id blob not null,
    epoch integer not null,
    otp_used_at integer,
    ready_at integer,
    seen_at integer,
    primary key (run_id, epoch)
) without rowid;

create table measurements (
    run_id blob not null,
    number integer not null,
    at integer not null,
    cpu real,
    memory real,
    primary key (run_id, number)
) without rowid;
