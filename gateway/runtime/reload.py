"""What SIGHUP reads again, while sessions go on.

    certificates, users, keys     files that settings name
    rules                         the [[rule]] tables of the settings file
    settings                      the settings file: those of `RELOADED` come into force

Each is a `Reloadable` and stands for itself: one that cannot be used stays as it was, with a sentence in the log, and
the others are read all the same.

Of the settings only those come into force that nothing was built upon: whoever needs one asks for it each time, or is
told (`on_change`).  Of the others the log says which are not in force yet, so that nobody waits for what needs a
restart.  A variable is stronger than the file, and does not change while the process lives: what is set by one needs a
restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import structlog
from pydantic import ValidationError

from gateway.config import errors, toml_file
from gateway.config.settings import Settings, SettingsError

log = structlog.get_logger("gateway")

RELOADED = ("admin_token", "allowed_origins", "log_level", "metrics_token", "trusted_proxies")
"""The settings that come into force without a restart; and the rules, which say themselves why they do not."""

_RULES = "rule"


@runtime_checkable
class Reloadable(Protocol):
    """What may change while sessions go on.

    Attributes:
        name: for the log.
    """

    name: str

    def reload(self) -> str | None:
        """Read it again; returns a sentence on what is wrong, then the old ones stay in force; None: nothing is."""
        ...


def reload_all(reloadables: Iterable[Reloadable]) -> None:
    """Read all of them again, and tell the log of it."""
    faults: dict[str, str] = {}
    fresh = []
    for each in reloadables:
        fault = _reloaded(each)
        if fault is None:
            fresh.append(each.name)
        else:
            faults[each.name] = fault
    say = log.warning if faults else log.info
    say("reloaded", what=", ".join(fresh) or "nothing", kept=[*faults])
    for reason in dict.fromkeys(faults.values()):  # several may have read the same file
        names = [name for name, fault in faults.items() if fault == reason]
        log.warning("what was in force stays after a reload", what=", ".join(names), reason=reason)


def _reloaded(what: Reloadable) -> str | None:
    try:
        return what.reload() or None
    except Exception:  # sessions go on, whatever lies in a file
        log.exception("a reload failed", what=what.name)
        return "it failed; the log says why"


class Reading:
    """The settings as they are read for one reload: once for all who ask, so that none of them has another file.

    Args:
        read: reads them.
    """

    def __init__(self, read: Callable[[], Settings]) -> None:
        self._read = read
        self._found: Settings | SettingsError | None = None

    def forget(self) -> None:
        """A reload begins, or ends: whoever asks next has them read."""
        self._found = None

    def __call__(self) -> Settings:
        """The settings.

        Raises:
            SettingsError: they are wrong.
        """
        if self._found is None:
            try:
                self._found = self._read()
            except SettingsError as error:
                self._found = error
        if isinstance(self._found, SettingsError):
            raise self._found
        return self._found


class InForce:
    """The settings in force.

    Attributes:
        name: what it is, for the log.
        now: the settings.
        on_change: called with them when others have come into force.

    Args:
        settings: those of the start.
        read: reads them again; by default they are what they were.
    """

    name = "settings"

    def __init__(self, settings: Settings, read: Callable[[], Settings] | None = None) -> None:
        self.now = settings
        self.on_change: list[Callable[[Settings], None]] = []
        self._read = read or (lambda: settings)
        self._had_file = toml_file.config_file().is_file()

    def reload(self) -> str | None:
        """Read the settings again; those of `RELOADED` are in force at once, and the log names both kinds.

        Returns:
            why they are not: the old ones stay, all of them.
        """
        try:
            if self._had_file:
                _refuse_lost_file()
            fresh = self._read()
            _refuse_open_doors(self.now, fresh)
            mixed = _mixed(self.now, fresh)
        except SettingsError as error:
            return str(error)
        differing = [name for name in Settings.model_fields if getattr(fresh, name) != getattr(self.now, name)]
        taken = [name for name in differing if name in RELOADED]
        left = [name for name in differing if name not in (*RELOADED, _RULES)]
        self.now = mixed
        if taken:
            for tell in self.on_change:
                tell(mixed)
            log.info("settings have changed", settings=", ".join(taken))
        if left:
            log.warning("settings have changed that need a restart", settings=", ".join(left))
        return None


def _refuse_lost_file() -> None:
    """Without the file all settings would be their defaults: nobody wants that, but whoever replaces it slowly has it.

    Raises:
        SettingsError: there is none any more.
    """
    path = toml_file.config_file()
    if not path.is_file():
        raise SettingsError(f"{path} is gone, and the settings in it with it; restart if that is meant")


def _refuse_open_doors(now: Settings, fresh: Settings) -> None:
    """A token that is not there any more is rather a mistake than a wish, and would not be noticed.

    Raises:
        SettingsError: the admin API would be open to everybody on this machine, and was not.
    """
    if now.admin_token and not (fresh.admin_token or now.admin_groups):
        raise SettingsError(
            "admin_token is not set any more, and without it every program on this machine may use the admin API; "
            "restart if that is meant"
        )


def _mixed(now: Settings, fresh: Settings) -> Settings:
    """What is in force until a restart: those of `RELOADED` fresh, the others as they are.

    Raises:
        SettingsError: they do not fit together, though the fresh ones do.
    """
    names = {*RELOADED}
    if bool(fresh.rule) is bool(now.rule):  # else the rules stay as they are, see `gateway.auth.rules`
        names.add(_RULES)
    values = dict(now) | {name: getattr(fresh, name) for name in names}
    try:
        # Tables fit to all else, and are none of a file's any more.
        Settings(**{name: value for name, value in values.items() if name not in ("policy", _RULES)})
    except ValidationError as error:
        reason = errors.sentence(error, errors.Sources(toml_file.read()))
        raise SettingsError(f"beside what needs a restart, {reason}") from None
    from_file = (now.model_fields_set - names) | (fresh.model_fields_set & names)
    return Settings.model_construct(_fields_set=from_file, **values)
