-- Notes how the creation of machines fares.
update pools set failures = ?2, create_after = ?3, spot_after = ?4, error = ?5
where pool_no = ?1
