-- Notes who started a run that goes on in the place of another.
insert into relatives (run_id, parent) select ?2, parent from relatives where run_id = ?1
