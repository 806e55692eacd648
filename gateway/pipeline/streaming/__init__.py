"""Jobs as Spark streams: `runner` runs them; the others keep checkpoints, progress, snapshots and the archive."""
