"""Bodies that fit: a SEND to a destination whose policy has a `schema` is refused if its body is against it.

It is refused before anything of it is carried out: in a transaction at the SEND, and a delayed message when it is sent.
What was accepted is not asked again: redelivery, dead letters and what an operator moves need no second check.
"""

from ..errors import BodyRefused
from ..model.policy import BodySchema, Policies

_MOST_REMEMBERED = 10_000  # names; more are found out again


class BodyCheck:
    """The schemas of a broker's policies, by the canonical names of destinations."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._schemas: dict[str, BodySchema | None] = {}

    def schema_of(self, name: str) -> BodySchema | None:
        """The schema of the messages to a name; None: it has none."""
        try:
            return self._schemas[name]
        except KeyError:
            if len(self._schemas) >= _MOST_REMEMBERED:
                self._schemas.clear()
            found = self._schemas[name] = self._policies.schema_of(name)
            return found

    def check(self, name: str, body: bytes) -> None:
        """Raise BodyRefused if the body of a message to a name does not fit."""
        schema = self.schema_of(name)
        reason = "" if schema is None else schema.refusal(body)
        if reason:
            raise BodyRefused(name, reason)
