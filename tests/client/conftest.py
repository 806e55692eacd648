"""What the tests of the client share."""

from tests.shared import gateway, name

__all__ = ["gateway", "name"]
