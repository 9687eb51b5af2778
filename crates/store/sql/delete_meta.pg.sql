-- Forgets a fact of the installation.
delete from meta where key = $1::text returning key
