-- What servers listen for, but this one, and how many of them have not been heard of.
select wants, until < ?1 as is_gone from event_servers where server <> ?2
