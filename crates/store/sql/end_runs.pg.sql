-- Ends runs: out of live, into ended. Returns those with relatives, which are to hear of it. Of leases that were taken from their
-- holders (4 lost, 5 timed out, 6 cancelled) it is kept when those were heard of last.
with gone as (
    delete from live where run_id = any($2::uuid[]) returning run_id, parent, parent_position, has_children
),
noted as (
    insert into ended (run_id, state, reason, epoch, failures, losses, claimed_at, started_at, lease_end, worker_id, error, ended_at, seen_at)
    select given.*, $1::bigint,
        case when given.lease_end >= 4 then
            (select worker_live.seen_at from worker_live where worker_live.worker_id = given.worker_id limit 1)
        end
    from unnest($2, $3::smallint[], $4::smallint[], $5::bigint[], $6::integer[], $7::integer[], $8::bigint[], $9::bigint[],
                $10::smallint[], $11::uuid[], $12::text[])
        as given(run_id, state, reason, epoch, failures, losses, claimed_at, started_at, lease_end, worker_id, error)
)
insert into outbox (run_id, parent, parent_position, has_children)
select run_id, parent, parent_position, has_children from gone where parent is not null or has_children
returning run_id
