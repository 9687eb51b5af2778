-- Forgets settings, so that they are again as each server was started.
delete from settings where name = any($1::text[])
