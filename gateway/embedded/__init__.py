"""The gateway inside a Starlette or FastAPI application: `Embedded`; see docs/web-frameworks.md."""

from gateway.embedded.application import Embedded, NotPublished, NotStarted

__all__ = ["Embedded", "NotPublished", "NotStarted"]
