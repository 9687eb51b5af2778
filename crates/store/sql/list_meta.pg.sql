-- The facts of the installation, but for a secret in plain.
select key, value from meta where key <> 'secret'
