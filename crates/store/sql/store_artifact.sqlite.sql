-- Notes that a file is all there: unless it was given up, and a result only while its lease is the live one. Others grow old from now (?4) on.
update artifacts set size = ?2, sha256 = ?3, created_at = iif(kind = 2, created_at, ?4)
where artifact_id = ?1 and size is null and doomed_at is null
    and (kind <> 2 or exists (
        select 1 from live where live.run_id = artifacts.run_id and live.epoch = artifacts.epoch and live.state in (1, 2)))
returning namespace
