-- Which runs have ended, and which go on in the place of others.
select given.run_id, continued.next
from unnest($1::uuid[]) as given(run_id)
left join lateral (select ended.run_id from ended where ended.run_id = given.run_id limit 1) ended on true
left join lateral (select continued.next from continued where continued.run_id = given.run_id limit 1) continued on true
where ended.run_id is not null
