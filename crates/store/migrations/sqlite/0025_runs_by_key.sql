-- People look for runs by their key, or by how it begins.
create index runs_by_key on runs (key) where key is not null;
