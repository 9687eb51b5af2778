-- Has all statements of this transaction see the same moment.
set transaction isolation level repeatable read
