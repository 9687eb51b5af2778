-- Cold: what was submitted of a build besides its run. outcome is the state in which it ended, once that is counted in build_totals.
create table builds (
    run_id uuid primary key,
    namespace text not null,
    platform text not null,
    project text,
    key_id text,
    source_id uuid,
    certs_id uuid,
    slug text,
    version text,
    url text,
    reference text,
    image text,
    base_image text,
    outcome smallint
);
create index builds_by_namespace on builds (namespace, run_id);
-- Those that have not ended, and those that ended and are not counted yet.
create index builds_open on builds (run_id) where outcome is null;

-- How many builds ended how, ever.
create table build_totals (
    namespace text not null,
    outcome smallint not null,
    builds bigint not null,
    primary key (namespace, outcome)
);

-- Hot: what grows while a build runs. Its lock gives lines and measurements their numbers.
create table build_progress (
    run_id uuid primary key,
    log_lines bigint not null default 0,
    log_bytes bigint not null default 0,
    log_full boolean not null default false,
    log_at bigint,
    measured bigint not null default 0
) with (fillfactor = 50);

-- Lines of a log, in chunks. last is the number of a chunk's last line, bytes_before what stands in the log before it; body is
-- JSON: [[level, message, when or null], ...].
create table log_chunks (
    run_id uuid not null,
    last bigint not null,
    lines integer not null,
    bytes_before bigint not null,
    at bigint not null,
    body text not null,
    primary key (run_id, last)
);

-- Files in storage. kind: 0 source, 1 certs, 2 result. uses: how many builds need it; a result is needed once its lease has
-- completed the build. doomed_at: given up, to be removed.
create table artifacts (
    artifact_id uuid primary key,
    namespace text not null,
    run_id uuid,
    kind smallint not null,
    epoch integer not null,
    uses integer not null default 0,
    created_at bigint not null,
    doomed_at bigint,
    size bigint,
    sha256 bytea,
    name text not null,
    path text not null
);
create index artifacts_by_run on artifacts (run_id) where run_id is not null;
create index artifacts_unused on artifacts (created_at, artifact_id) where uses = 0;

-- Bytes of stored files.
create table artifact_totals (
    namespace text primary key,
    bytes bigint not null
);

-- Builders of the polling protocols. token: the number of the newest one that was given out.
create table builders (
    namespace text not null,
    name_id text not null,
    worker_id uuid not null unique,
    replaced_id uuid,
    key_id text,
    token bigint not null,
    first_token bigint not null,
    token_used boolean not null,
    token_until bigint not null,
    registered_at bigint not null,
    revoked_at bigint,
    succeeded bigint not null default 0,
    failed bigint not null default 0,
    primary key (namespace, name_id)
);

-- Virtual machines, one for each lease.
create table machines (
    run_id uuid not null,
    epoch integer not null,
    otp_used_at bigint,
    ready_at bigint,
    seen_at bigint,
    primary key (run_id, epoch)
);

create table measurements (
    run_id uuid not null,
    number bigint not null,
    at bigint not null,
    cpu double precision,
    memory double precision,
    primary key (run_id, number)
);
