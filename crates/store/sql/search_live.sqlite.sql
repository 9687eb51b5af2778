-- Searches runs that have not ended, newest first.
select live.run_id
from live
where live.run_id < ?8 and live.run_id >= ?9
