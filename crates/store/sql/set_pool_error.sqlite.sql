-- Notes what the provider of a pool said last.
update pools set error = ?2 where pool_no = ?1
