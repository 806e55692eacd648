"""Flow control: timers, limits of connections and rates, back-pressure, memory."""
