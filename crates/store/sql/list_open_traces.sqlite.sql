-- Runs whose spans are still to be sent, and when they ended; in the order of their identifiers.
select page.run_id, (select ended.ended_at from ended where ended.run_id = page.run_id) as ended_at
from (select run_id from open_traces where ?1 is null or run_id > ?1 order by run_id limit ?2) page
order by page.run_id
