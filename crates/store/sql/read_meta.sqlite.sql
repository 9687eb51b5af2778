-- A fact of the installation.
select value from meta where key = ?1
