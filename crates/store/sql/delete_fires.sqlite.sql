-- Forgets fires that were carried out long ago, oldest first.
delete from fires where fire_no in (select fire_no from fires where at < ?1 order by at limit ?2)
