-- Changes nothing, but has to be written: proves that the store can be.
update run_sequence set last = last
