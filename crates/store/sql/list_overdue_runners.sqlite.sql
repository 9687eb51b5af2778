-- Finds runners that are in their state for too long, longest first.
select runner_id from runners
where state in (0, 2, 3, 4) and deadline < ?1
order by deadline, runner_id
limit ?2
