-- Uses up a link, if it is good still.
update signin_links set used_at = clock.now
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where link_hash = $2::bytea and used_at is null and expires_at > clock.now
returning key_id, key_hash
