-- What a workflow waited for: sleeps, signals and children.
select position, kind, state, name, begun_at, ended_at, child, error from steps
where run_id = ?1 and kind in (1, 2, 3)
order by position limit ?2
