-- Leaves a message.
insert into inbox (run_id, number, kind, at, state, position, name, key, error, payload)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
