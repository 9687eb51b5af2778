-- Deletes a block of statistics.
delete from statistics where number = ?1
