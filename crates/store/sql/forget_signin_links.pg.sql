-- Deletes links that are over.
delete from signin_links where link_hash in (
    select link_hash from signin_links cross join (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
    where expires_at <= clock.now
    limit $2::bigint
)
returning link_hash
