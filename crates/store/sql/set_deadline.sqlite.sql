-- Sets when a run is ended; of two the earlier one counts.
insert into deadlines (run_id, at, cancels)
select ?1, ?2, ?3 where exists (select 1 from live where live.run_id = ?1)
on conflict (run_id) do update set at = excluded.at, cancels = excluded.cancels where excluded.at < deadlines.at
