-- Notes until when the holders of runs have to stop.
update live set cancel_by = given.cancel_by
from unnest($1::uuid[], $2::bigint[]) as given(run_id, cancel_by)
where live.run_id = given.run_id
