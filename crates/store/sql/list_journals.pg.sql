-- What whoever goes on with workflows has to know: all but the steps that failed in an earlier attempt of their run.
select steps.*
from unnest($1::uuid[]) as given(run_id)
left join lateral (select live.failures from live where live.run_id = given.run_id limit 1) run on true
join lateral (
    select * from steps where steps.run_id = given.run_id and not (steps.state = 2 and steps.failures < coalesce(run.failures, 0))
) steps on true
order by steps.run_id, steps.position
