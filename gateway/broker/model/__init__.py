"""Model: plain values: messages, options of frames, names of destinations, policies."""
