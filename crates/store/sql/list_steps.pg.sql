-- What a workflow remembers beyond a position.
select * from steps where run_id = $1::uuid and position > $2::integer order by position limit $3::bigint
