-- Writes down what became of fires.
insert into fires (schedule_no, fire_at, at, what, run_id)
select $1::bigint, fire_at, $2::bigint, what, run_id
from unnest($3::bigint[], $4::smallint[], $5::uuid[]) with ordinality as given(fire_at, what, run_id, ordinal)
order by ordinal
