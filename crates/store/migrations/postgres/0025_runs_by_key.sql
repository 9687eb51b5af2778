-- People look for runs by their key, or by how it begins: in the order of bytes, which serves both.
create index runs_by_key on runs (key collate "C", run_id) where key is not null;
