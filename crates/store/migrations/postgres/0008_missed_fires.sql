-- How many fires a line stands for that a downtime was too long to make up for; null for a line about one fire. The line is about the newest.
alter table fires add column missed bigint;
