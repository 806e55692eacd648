"""An operator for tests: each call runs the broker until its work is over, or stands still."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.broker.admin.messages import MessageAdmin, Outcome, Page

from ..client import Client, Scene


def fill(scene: Scene, count: int, name: str = "a", **headers: str) -> Client:
    """Send so many messages, whose bodies are their numbers."""
    client = scene.connect()
    for number in range(count):
        client.publish(name, b"%d" % number, **headers)
    return client


def texts(*numbers: int) -> list[str]:
    """Bodies, as rows show them."""
    return [str(number) for number in numbers]


class Operator:
    """Calls the administration, and keeps the outcomes."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.told: list[Outcome] = []
        self.pages: list[Page] = []
        self.found: list[dict[str, object] | None] = []

    @property
    def administration(self) -> MessageAdmin:
        """The broker's side."""
        return self.scene.message_admin

    def _go_on(self) -> None:
        """All turns, and all that the store has to write or to read."""
        self.scene.settle()
        if self.scene.is_stored:
            self.scene.commit()

    def browse(self, name: str, offset: int = 0, limit: int = 1_000, selector: str = "") -> Page:
        self.administration.browse(name, offset, limit, selector, self.pages.append)
        self._go_on()
        return self.pages.pop()

    def bodies(self, name: str, offset: int = 0, limit: int = 1_000, selector: str = "") -> list[str]:
        """The bodies of the messages that wait."""
        return [str(row["body"]) for row in self.browse(name, offset, limit, selector).messages]

    def ids(self, name: str) -> list[str]:
        return [str(row["id"]) for row in self.browse(name).messages]

    def find(self, name: str, id: str, most: int = 1_000) -> dict[str, object] | None:
        self.administration.find(name, id, most, self.found.append)
        self._go_on()
        return self.found.pop()

    def delete(self, name: str, ids: Sequence[str]) -> Outcome:
        self.administration.delete(name, ids, self.told.append)
        return self._outcome()

    def purge(self, name: str, selector: str = "") -> Outcome:
        self.administration.purge(name, selector, self.told.append)
        return self._outcome()

    def move(
        self, source: str, target: str, ids: Sequence[str] | None = None, selector: str = "", limit: int | None = None
    ) -> Outcome:
        self.administration.move(source, target, ids, selector, limit, self.told.append)
        return self._outcome()

    def redrive(self, name: str, ids: Sequence[str] | None = None, limit: int | None = None) -> Outcome:
        self.administration.redrive(name, ids, limit, self.told.append)
        return self._outcome()

    def _outcome(self) -> Outcome:
        self._go_on()
        (outcome,) = self.told
        self.told.clear()
        return outcome
