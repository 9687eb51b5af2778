"""bench/partitions: faults between processes in network namespaces, judged by what clients saw."""
