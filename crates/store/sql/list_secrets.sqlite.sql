-- The generations of the installation's secret, as they are wrapped, oldest first.
select generation, wrapped, key_id, made_at, tokens_until from secrets order by generation
