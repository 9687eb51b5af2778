-- Lets one server at a time count the held runs of this queue's keys; the transaction's end unlocks.
select pg_advisory_xact_lock(7401, $1::integer)
