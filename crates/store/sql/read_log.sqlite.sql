-- Chunks with lines after ?2, up to ?3 lines and about ?4 bytes.
select last, lines, at, body
from log_chunks
where run_id = ?1 and last > ?2 and last <= (
    select max(last)
    from (select last, lines, bytes_before from log_chunks where run_id = ?1 and last > ?2 order by last limit ?3)
    where last - lines < ?2 + ?3
        and bytes_before < ?4 + (select bytes_before from log_chunks where run_id = ?1 and last > ?2 order by last limit 1))
order by last
