-- Forgets a setting, so that it is again as the server was started.
delete from settings where name = ?1
