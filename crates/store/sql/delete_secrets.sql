-- Discards all generations of the installation's secret: what they have sealed is lost.
delete from secrets
