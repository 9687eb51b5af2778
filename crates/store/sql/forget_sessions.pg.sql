-- Deletes sessions that are over.
delete from sessions where session_id in (
    select session_id from sessions cross join (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
    where expires_at <= clock.now or seen_at <= clock.now - $2::bigint
    limit $3::bigint
)
returning session_id
