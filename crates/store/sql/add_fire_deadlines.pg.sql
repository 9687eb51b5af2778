-- Says until when the runs of fires may live.
insert into deadlines (run_id, at, cancels)
select run_id, at, false from unnest($1::uuid[], $2::bigint[]) as given(run_id, at)
on conflict (run_id) do nothing
