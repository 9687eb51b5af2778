-- Makes room for the facts of the installation to be written anew.
drop table meta
