-- Notes who started a run, for when it has ended.
insert into relatives (run_id, parent) values (?1, ?2)
