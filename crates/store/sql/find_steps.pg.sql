-- What workflows remember at positions.
select steps.*
from unnest($1::uuid[], $2::integer[]) as given(run_id, position)
cross join lateral (
    select * from steps where steps.run_id = given.run_id and steps.position = given.position limit 1
) steps
