-- Forgets runners that were gone long ago.
delete from runners where runner_id in (
    select runner_id from runners where state = 6 and since < ?1 order by since limit ?2
)
