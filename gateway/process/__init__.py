"""Process: what the gateway runs under: systemd, hypercorn's workers, an event loop of asyncio."""
