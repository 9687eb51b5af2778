-- What a workflow remembers beyond a position, without what came out.
select position, kind, state, earlier + attempts as attempts, epoch, begun_at, ended_at, due_at, child, name, code
from steps
where run_id = $1::uuid and position > $2::integer
order by position limit $3::bigint
