-- Runs whose relatives do not know yet that they have ended, and how they ended.
select outbox.run_id, outbox.parent, outbox.parent_position, outbox.has_children, ended.state, ended.error, ended.output
from outbox join ended on ended.run_id = outbox.run_id
order by outbox.run_id limit ?1
