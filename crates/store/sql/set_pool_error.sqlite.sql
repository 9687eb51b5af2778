-- Notes what the provider of a pool said last; nothing when that is empty.
update pools set error = nullif(?2, '') where pool_no = ?1
