-- Searches runs that workers hold, newest first. They are few, and have an index of their own.
select live.run_id
from live indexed by live_held
where live.run_id < ?8 and live.run_id >= ?9
  and live.place = 3
