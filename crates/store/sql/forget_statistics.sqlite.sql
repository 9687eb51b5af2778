-- Deletes blocks of statistics that are old.
delete from statistics where number in (select number from statistics where at < ?1 order by at limit ?2)
