-- Notes how the creation of machines fares.
update pools set failures = $2::integer, create_after = $3::bigint, spot_after = $4::bigint, error = $5::text
where pool_no = $1::bigint
