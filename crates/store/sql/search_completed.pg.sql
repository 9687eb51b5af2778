-- Searches completed runs, newest first.
select ended.run_id
from ended
cross join lateral (select * from runs where runs.run_id = ended.run_id limit 1) as runs
where ended.run_id < $8::uuid and ended.run_id >= $9::uuid and ended.state = 4
