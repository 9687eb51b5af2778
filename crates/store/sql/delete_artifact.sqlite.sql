-- Forgets a file that is gone from storage; returns what it took.
delete from artifacts where artifact_id = ?1 and uses = 0 returning namespace, size
