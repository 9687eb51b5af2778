-- Chunks with lines after $2, up to $3 lines and about $4 bytes.
select last, lines, at, body
from log_chunks
where run_id = $1::uuid and last > $2::bigint and last <= (
    select max(near.last)
    from (
        select last, lines, bytes_before from log_chunks where run_id = $1 and last > $2 order by last limit $3::bigint
    ) near
    where near.last - near.lines < $2 + $3
      and near.bytes_before < $4::bigint + (
        select bytes_before from log_chunks where run_id = $1 and last > $2 order by last limit 1
      )
)
order by last
