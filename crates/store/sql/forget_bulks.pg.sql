-- Deletes bulk operations that ended longer ago than this.
delete from bulk_operations where bulk_id = any (array(
    select bulk_id from bulk_operations where state <> 0 and ended_at < coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $2::bigint
    order by ended_at limit $3::bigint
))
returning bulk_id
