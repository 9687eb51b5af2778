-- When the holder of a lease was heard of last; for leases that were taken from their holders.
alter table attempts add column seen_at bigint;
alter table ended add column seen_at bigint;

-- Cold: writes that were refused because their lease was over. One row for all that wanted the same under the same lease.
-- position: -1 where the write has none. Rows of a run are limited: what comes on top is counted in the row with epoch 0, which no
-- claim has.
create table refused_writes (
    run_id uuid not null,
    epoch bigint not null,
    verb smallint not null,
    position integer not null,
    current_epoch bigint not null,
    worker_id uuid,
    name text not null,
    at bigint not null,
    last_at bigint not null,
    times bigint not null,
    bytes bigint not null,
    primary key (run_id, epoch, verb, position)
);
