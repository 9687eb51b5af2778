-- Searches failed and cancelled runs, which have an index of their own, newest first.
select ended.run_id
from ended indexed by ended_badly
join runs on runs.run_id = ended.run_id
where ended.run_id < ?8 and ended.run_id >= ?9 and ended.state <> 4
