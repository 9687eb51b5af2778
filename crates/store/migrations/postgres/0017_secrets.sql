-- The generations of the installation's secret, each encrypted with a master key that is not in this database (docs/adr/0025).
-- key_id: which master key; tokens_until: until when tokens of this generation are good, which is for ever while it is the newest.
create table secrets (
    generation integer primary key,
    wrapped bytea not null,
    key_id text not null,
    made_at bigint not null,
    tokens_until bigint
);

-- Whether inputs, outputs and other payloads of a namespace are encrypted before they come here.
alter table namespaces add column seal_payloads boolean not null default false;
