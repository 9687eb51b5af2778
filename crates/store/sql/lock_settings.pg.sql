-- Lets one server at a time change settings, so that each sees what it checked its change against; the transaction's end unlocks.
select pg_advisory_xact_lock(7400, 1)
