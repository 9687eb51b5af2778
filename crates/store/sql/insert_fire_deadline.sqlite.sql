-- Says until when the run of a fire may live.
insert into deadlines (run_id, at, cancels) values (?1, ?2, 0) on conflict (run_id) do nothing
