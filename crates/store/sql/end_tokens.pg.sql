-- Ends the time of tokens of all generations but the newest after $2, or before if it ends before.
update secrets set tokens_until = least(clock.now + $2::bigint, secrets.tokens_until)
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where secrets.generation < (select max(newest.generation) from secrets newest)
