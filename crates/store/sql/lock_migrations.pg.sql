-- Lets one server at a time bring the schema up to date; the transaction's end unlocks.
select pg_advisory_xact_lock(7400, 0)
