-- Searches runs that workers hold, newest first. They are few, and have an index of their own.
select live.run_id
from live
where live.run_id < $8::uuid and live.run_id >= $9::uuid
  and live.place = 3
