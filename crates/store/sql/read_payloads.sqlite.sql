-- What went into a run and what came out.
select runs.input, ended.output
from runs left join ended on ended.run_id = runs.run_id
where runs.run_id = ?1
