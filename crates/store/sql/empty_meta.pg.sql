-- Gives the facts of the installation a new file: in the old one, which goes, what was deleted could still be read.
truncate meta
