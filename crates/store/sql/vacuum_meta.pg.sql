-- Writes the facts of the installation anew, so that one that was deleted is not left in the file.
vacuum full meta
