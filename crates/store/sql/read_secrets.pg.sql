-- The generations of the installation's secret, as they are wrapped, oldest first, and beside each what there is besides. One
-- row where there are none.
select secrets.generation, secrets.wrapped, secrets.key_id, secrets.made_at, secrets.tokens_until,
    (select value from meta where key = 'secret') as plain,
    (select value from meta where key = 'installation') as installation,
    coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
from (values (1)) one(row) left join secrets on true
order by secrets.generation
