-- Where signals were taken.
select steps.run_id, steps.message, steps.position
from unnest($1::uuid[], $2::bigint[]) as given(run_id, message)
cross join lateral (
    select * from steps where steps.run_id = given.run_id and steps.message = given.message and steps.message is not null limit 1
) steps
