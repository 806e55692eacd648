"""Reload by SIGHUP, while sessions go on: certificates, users, keys, rules, and the settings in `RELOADED`.

Each part is a `Reloadable` of its own: one that cannot be used stays as it was, with a sentence in the log, and the
others are read all the same.  The log names changed settings that need a restart.  A variable of the environment
overrides the file and cannot change, so its setting needs a restart.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import structlog
from pydantic import ValidationError

from gateway.config import errors, toml_file
from gateway.config.settings import Settings, SettingsError

log = structlog.get_logger("gateway")

RELOADED = ("admin_token", "allowed_origins", "log_level", "metrics_token", "trusted_proxies")
"""The settings that come into force without a restart, beside the rules, which have a `Reloadable` of their own."""

_RULES = "rule"


@runtime_checkable
class Reloadable(Protocol):
    """A part that can change while sessions go on.  `name`: for the log."""

    name: str

    def reload(self) -> str | None:
        """Read it again; returns a sentence if it is wrong, and the old state stays; None: it is in force."""
        ...


def reload_all(reloadables: Iterable[Reloadable]) -> None:
    """Read all of them again, and log the result."""
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
    for reason in dict.fromkeys(faults.values()):  # several may have read the same wrong file
        names = [name for name, fault in faults.items() if fault == reason]
        log.warning("what was in force stays after a reload", what=", ".join(names), reason=reason)


def _reloaded(what: Reloadable) -> str | None:
    try:
        return what.reload() or None
    except Exception:  # sessions go on, whatever is in a file
        log.exception("a reload failed", what=what.name)
        return "it failed; the log says why"


class Reading:
    """The settings of one reload, read once, so that all reloadables see the same file.  `read`: reads them."""

    def __init__(self, read: Callable[[], Settings]) -> None:
        self._read = read
        self._found: Settings | SettingsError | None = None

    def forget(self) -> None:
        """Begin or end a reload: the next call reads again."""
        self._found = None

    def __call__(self) -> Settings:
        """The settings.  Raises SettingsError: they are wrong."""
        if self._found is None:
            try:
                self._found = self._read()
            except SettingsError as error:
                self._found = error
        if isinstance(self._found, SettingsError):
            raise self._found
        return self._found


class InForce:
    """The settings in force.  `settings`: of the start.  `read`: reads them again; by default they never change."""

    name = "settings"  # for the log

    def __init__(self, settings: Settings, read: Callable[[], Settings] | None = None) -> None:
        self.now = settings  # the settings
        self.on_change: list[Callable[[Settings], None]] = []  # functions that are called with changed settings
        self._read = read or (lambda: settings)
        self._had_file = toml_file.config_file().is_file()

    def take(self, settings: Settings) -> None:
        """Let settings be in force."""
        self.now = settings
        for tell in self.on_change:
            tell(settings)

    def reload(self) -> str | None:
        """Read the settings again; those of `RELOADED` are in force at once, and the log names both kinds.

        Returns a sentence if the settings are wrong: then the old ones stay.
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
            self.take(mixed)
            log.info("settings have changed", settings=", ".join(taken))
        if left:
            log.warning("settings have changed that need a restart", settings=", ".join(left))
        return None


def _refuse_lost_file() -> None:
    """Without the file all settings would have their defaults: it may be missing while an editor replaces it.

    Raises SettingsError: the file is missing.
    """
    path = toml_file.config_file()
    if not path.is_file():
        raise SettingsError(f"{path} is gone, and the settings in it with it; restart if that is meant")


def _refuse_open_doors(now: Settings, fresh: Settings) -> None:
    """A token that is missing after a reload is probably a mistake.

    Raises SettingsError: the admin API would become open to every program on this machine.
    """
    if now.admin_token and not (fresh.admin_token or now.admin_groups):
        raise SettingsError(
            "admin_token is not set any more, and without it every program on this machine may use the admin API; "
            "restart if that is meant"
        )


def _mixed(now: Settings, fresh: Settings) -> Settings:
    """The settings in force until a restart: those of `RELOADED` fresh, the others as they were.

    Raises SettingsError: they do not fit together, though the fresh ones do.
    """
    names = {*RELOADED}
    if bool(fresh.rule) is bool(now.rule):  # else the rules stay as they are, see `gateway.auth.rules`
        names.add(_RULES)
    values = dict(now) | {name: getattr(fresh, name) for name in names}
    try:
        # Tables are already validated objects, and fit to all other settings.
        Settings(**{name: value for name, value in values.items() if name not in ("policy", _RULES)})
    except ValidationError as error:
        reason = errors.sentence(error, errors.Sources(toml_file.read()), Settings.model_fields)
        raise SettingsError(f"beside what needs a restart, {reason}") from None
    from_file = (now.model_fields_set - names) | (fresh.model_fields_set & names)
    return Settings.model_construct(_fields_set=from_file, **values)
