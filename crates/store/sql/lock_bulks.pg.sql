-- Lets one server at a time make bulk operations, so that their limit holds; the transaction's end unlocks.
select pg_advisory_xact_lock(7400, 3)
