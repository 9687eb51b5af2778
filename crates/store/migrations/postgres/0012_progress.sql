-- How far a lease's machine says it is, in per cent; and memory in use where it is given in megabytes and not as a share.
alter table machines add column progress double precision;
alter table measurements add column memory_mb double precision;
