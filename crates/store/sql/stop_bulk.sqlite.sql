-- Asks a bulk operation to stop. Where no server acts on its runs now, it is due at once.
update bulk_operations set stopping = 1, due_at = case when length(planned) = 0 then min(due_at, ?2) else due_at end
where bulk_id = ?1 and state = 0
