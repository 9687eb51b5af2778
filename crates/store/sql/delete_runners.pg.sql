-- Forgets runners that were gone long ago.
delete from runners where runner_id in (
    select runner_id from runners where state = 6 and since < $1::bigint order by since limit $2::bigint for update skip locked
)
returning 1
