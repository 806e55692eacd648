"""Tasks of taskiq in a queue of the gateway, by taskiq_broker.py.

    GATEWAY_CONFIG=taskiq_tasks.toml gateway serve        # the back-off, and where tasks go that cannot be done
    taskiq worker taskiq_tasks:broker --workers 1         # pip install taskiq
    python taskiq_tasks.py                                # sends four tasks

The worker prints the urgent letter first, the late one two seconds later, and tries three times to write to nobody.
Then that task is a dead letter:

    gateway subscribe /queue/tasks.failed --browse
"""

import asyncio
import os

from taskiq_broker import StompBroker

HOST, PORT = os.environ.get("STOMP_HOST", "127.0.0.1"), os.environ.get("STOMP_PORT", "61613")

broker = StompBroker(f"stomp://{HOST}:{PORT}")


@broker.task("write")
async def write(to: str) -> None:
    """Write a letter."""
    if to == "nobody":
        raise ValueError("there is no such address")
    print(f"a letter to {to}", flush=True)


async def main() -> None:
    await broker.startup()
    await write.kicker().with_labels(delay=2).kiq("Carol, who has time")
    await write.kiq("nobody")
    await write.kiq("Bob")
    await write.kicker().with_labels(priority=9).kiq("Alice, urgent")
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
