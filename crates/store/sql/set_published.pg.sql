-- Keeps what workflows show.
insert into published (run_id, payload, at)
select given.*, $1::bigint from unnest($2::uuid[], $3::bytea[]) as given
on conflict (run_id) do update set at = excluded.at, payload = excluded.payload
