-- All facts of the installation.
select key, value from meta
