-- Lets one server at a time change the secrets, so that each sees what it read; the transaction's end unlocks.
select pg_advisory_xact_lock(7400, 2)
