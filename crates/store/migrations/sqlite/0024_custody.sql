-- When the holder of a lease was heard of last; for leases that were taken from their holders.
alter table attempts add column seen_at integer;
alter table ended add column seen_at integer;

-- Cold: writes that were refused because their lease was over. One row for all that wanted the same under the same lease.
-- position: -1 where the write has none. Rows of a run are limited: what comes on top is counted in the row with epoch 0, which no
-- claim has.
create table refused_writes (
    run_id blob not null,
    epoch integer not null,
    verb integer not null,
    position integer not null,
    current_epoch integer not null,
    worker_id blob,
    name text not null,
    at integer not null,
    last_at integer not null,
    times integer not null,
    bytes integer not null,
    primary key (run_id, epoch, verb, position)
) without rowid;
