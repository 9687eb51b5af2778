-- Makes room for so many events behind all others.
update event_clock set last = last + ?1 returning last
