-- Deletes bulk operations that ended before ?1.
delete from bulk_operations where bulk_id in (
    select bulk_id from bulk_operations indexed by bulk_ended where state <> 0 and ended_at < ?1 order by ended_at limit ?2
)
