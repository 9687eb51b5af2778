-- The installation's secret.
select value from meta where key = 'secret'
