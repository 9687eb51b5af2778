-- The types that an order asks for, besides those of its pool: a JSON list of patterns, those of the claims that it is made for.
alter table runner_orders add column types text not null default '[]';
