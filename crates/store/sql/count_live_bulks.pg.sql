-- Counts the bulk operations of a namespace that go on; those of all namespaces are counted apart.
select count(*) from bulk_operations where state = 0 and namespace is not distinct from $1::text
