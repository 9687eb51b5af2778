-- Ends the time of tokens of all generations but the newest after ?2, or before if it ends before. ?1 is now.
update secrets set tokens_until = min(?1 + ?2, coalesce(tokens_until, ?1 + ?2))
where generation < (select max(generation) from secrets)
