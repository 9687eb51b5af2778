-- Builds that ended before ?2. None of them was submitted later, which is what ?1, the smallest identifier of that time, says.
select builds.run_id
from builds cross join ended on ended.run_id = builds.run_id
where builds.run_id < ?1 and ended.ended_at < ?2
order by builds.run_id limit ?3
