"""Published weights and data sets, by name: found, fetched, checked and kept in a cache."""
