-- Writes down what became of fires.
insert into fires (schedule_no, fire_at, at, what, run_id, missed)
select $1::bigint, fire_at, $2::bigint, what, run_id, missed
from unnest($3::bigint[], $4::smallint[], $5::uuid[], $6::bigint[]) with ordinality as given(fire_at, what, run_id, missed, ordinal)
order by ordinal
