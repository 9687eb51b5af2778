-- Keeps what a workflow shows.
insert into published (run_id, at, payload) values (?1, ?2, ?3)
on conflict (run_id) do update set at = excluded.at, payload = excluded.payload
