-- Where a line of the audit log comes from: the caller's address, and the request that it was.
alter table audit add column address text;
alter table audit add column request_id text;
