-- Makes a draft that is all there (?1) the result of a lease (?2, ?3), while that is the live one.
update artifacts set kind = 2, run_id = ?2, epoch = ?3
where artifact_id = ?1 and kind = 3 and size is not null and doomed_at is null
    and exists (select 1 from live where live.run_id = ?2 and live.epoch = ?3 and live.state in (1, 2))
