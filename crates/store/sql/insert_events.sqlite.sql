-- Writes a batch of events.
insert into events (first, last, at, body) values (?1, ?2, ?3, ?4)
