-- Moves a schedule on after its fires.
update schedules set
    revision = revision + 1, last_at = $2::bigint, next_at = $3::bigint, buffered_at = $4::bigint,
    last_fire = coalesce($5::bigint, last_fire), last_run = coalesce($6::uuid, last_run),
    fired = fired + $7::bigint, left_out = left_out + $8::bigint
where schedule_no = $1::bigint
