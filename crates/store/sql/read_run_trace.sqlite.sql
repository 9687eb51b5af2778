-- The trace that a run is part of.
select trace from runs where run_id = ?1 and trace is not null
