-- Takes the next ?1 submission numbers; returns the last of them.
update run_sequence set last = last + ?1 returning last
