-- Lists schedules by namespace and id, after the one where the page before ended.
select schedule_no, namespace, schedule_id, spec, note, is_paused, revision, created_at, last_at, next_at, last_fire, last_run,
    buffered_at, fired, left_out
from schedules
where (?1 is null or namespace = ?1)
  and (?2 is null or (namespace, schedule_id) > (?2, ?3))
order by namespace, schedule_id
limit ?4
