-- Deletes blocks of statistics that are old.
delete from statistics where number = any (array(
    select number from statistics where at < $1::bigint order by at limit $2::bigint for update skip locked
))
returning 1
