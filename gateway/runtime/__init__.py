"""Runtime: the parts of one gateway put together and kept running: listeners, store, journal, reload."""
