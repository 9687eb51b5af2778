-- Says which claims of a worker were answered.
update worker_live set answered_no = $2::bigint, answered_bits = $3::bigint where worker_id = $1::uuid
