-- Finds runners whose agents are silent: handed over ones have more time.
select runner_id from runners
where state in (1, 2, 3, 4) and coalesce(seen_at, since) < case when state = 3 then ?2 else ?1 end
order by runner_id
limit ?3
