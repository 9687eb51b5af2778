-- Reads the store's clock, and whether the store can be written.
select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now, current_setting('transaction_read_only') = 'on' as read_only
