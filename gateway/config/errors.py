"""Errors of the settings: one sentence that says what is wrong, and where the value stands.

gateway.toml line 3: max_body is wrong: ...     the value stands in the file
max_body (GATEWAY_MAX_BODY) is wrong: ...       the value stands in the environment, or is the default
"""

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from gateway.config import kinds, policies, rules, toml_file
from gateway.config.toml_file import SettingsError, SettingsFile

_KEYS = {"policy": frozenset({"match", *policies.KEY_RULES}), "rule": frozenset(rules.KEYS)}
"""Keys of the settings that are tables."""
_PLURALS = {"policy": "policies", "rule": "rules"}

SECRETS = frozenset({"admin_token", "metrics_token", "cluster_password", "cluster_token"})
"""Settings with secret values."""

_MEANT = {
    "tcp": ("port", "host", "listen", "bind", "address", "stomp"),
    "users_file": ("user", "users", "login", "password", "passcode", "auth"),
    "admin_token": ("token", "api_key"),
    "allowed_origins": ("origin", "origins", "cors"),
    "store": ("database", "persistence", "persistent", "storage", "data"),
    "tls_certificate": ("cert", "certificate", "ssl_certificate"),
    "tls_key": ("key", "ssl_key"),
    "log_level": ("debug", "verbose", "loglevel"),
    "[[policy]]": ("queue", "queues", "topic", "topics", "destinations"),
    "[[rule]]": ("permission", "permissions", "acl"),
}
"""Settings, and words for them that other programs have."""

_KUBERNETES = re.compile(r"GATEWAY_(SERVICE_HOST|SERVICE_PORT.*|PORT.*)")
"""Variables that Kubernetes sets in every pod beside a service named `gateway`; they are no settings."""


class StartError(Exception):
    """The gateway cannot start; `str()` is one sentence that names the setting."""


@contextmanager
def start_errors() -> Iterator[None]:
    """Raise a StartError of the block as it is, though nurseries have wrapped it in groups."""
    try:
        yield
    except BaseExceptionGroup as group:
        found: BaseException = group
        while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
            found = found.exceptions[0]
        if isinstance(found, StartError):
            raise found from None
        raise


class SettingsConflict(ValueError):
    """Settings do not fit together; `str()` says why.  `values`: of the settings concerned."""

    def __init__(self, reason: str, **values: object) -> None:
        super().__init__(reason)
        self.values = values


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of the values of settings.  `arguments`: names of settings that a program passed to `load`."""

    file: SettingsFile
    arguments: Collection[str] = ()

    def of(self, name: str) -> str:
        """Where the value in force stands: the file's line, the variable, or `argument` or `default`."""
        if name in self.arguments:
            return "argument"
        if variable(name) in map(str.upper, os.environ):  # as in `from_environment`
            return variable(name)
        for old, setting in toml_file.old_variables().items():
            if setting == name:
                return old
        return self._line_of(name) if name in self.file.values else "default"

    def is_in_file(self, name: str) -> bool:
        """True if the file's value is in force."""
        return name in self.file.values and self.of(name) == self._line_of(name)

    def _line_of(self, name: str) -> str:
        return f"{self.file.path} line {self.file.line_of(name)}"

    def place(self, name: str) -> str:
        """The setting with the place where its value stands, or could stand."""
        return f"{self.of(name)}: {name}" if self.is_in_file(name) else f"{name} ({variable(name)})"


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"GATEWAY_{name.upper()}"


def from_environment(names: Collection[str]) -> dict[str, str]:
    """The values of settings in the environment, whose variables may have any letter case."""
    found = {name.upper(): value for name, value in os.environ.items()}
    return {name: found[variable(name)] for name in names if variable(name) in found and name not in _KEYS}


def wrong(name: str, reason: object) -> str:
    """The sentence on a value that is found to be wrong when it is used."""
    return f"{_place(name)} is wrong: {reason}"


def unusable(name: str, reason: object) -> str:
    """The sentence on a valid value that names something unusable, like a file."""
    return f"{_place(name)} cannot be used: {reason}"


def not_installed(name: str, error: ImportError, extra: str) -> str:
    """The sentence on a setting that needs packages of an extra."""
    return unusable(name, f"{error.name} is not installed; pip install 'stomp-gateway[{extra}]' brings it")


def _place(name: str) -> str:
    try:
        return Sources(toml_file.read()).place(name)
    except SettingsError:  # the file has changed since the settings were read
        return f"{name} ({variable(name)})"


def refuse_unknown(names: Collection[str], file: SettingsFile) -> None:
    """Refuse variables, and names in the file, that are no settings and would have no effect: SettingsError."""
    variables = [*toml_file.old_variables(), *[variable(name) for name in names if name not in _KEYS]]
    for found in sorted(os.environ):
        ours = found in variables or found == "GATEWAY_CONFIG" or _KUBERNETES.fullmatch(found)
        if found.startswith("GATEWAY_") and not ours:
            raise SettingsError(_unknown_variable(found, names, file))
    for name, value in file.values.items():
        if name not in names:
            raise SettingsError(f"{file.path} line {file.line_of(name)}: {_unknown(name, value, names)}")


def _unknown_variable(found: str, names: Collection[str], file: SettingsFile) -> str:
    name = found.removeprefix("GATEWAY_").lower()
    for kind, keys in _KEYS.items():
        if name == kind or name in keys:
            return f"{found} is no variable; write {_PLURALS[kind]} as [[{kind}]] tables into {file.path}"
    return f"there is no setting {found}; {_hint(name, {each: variable(each) for each in names if each not in _KEYS})}"


def _unknown(name: str, value: object, names: Collection[str]) -> str:
    for kind, keys in _KEYS.items():
        if name in keys:
            return f"{name} belongs in a [[{kind}]]: it is a key of {_PLURALS[kind]} and no setting"
    hint = _hint(name, {each: f"[[{each}]]" if each in _KEYS else each for each in names})
    if isinstance(value, dict) and "[[" not in hint:
        hint = "settings stand outside of tables: write them above the first [header]"
    return f"there is no setting {name!r}; {hint}"


def _hint(name: str, known: Mapping[str, str]) -> str:
    """A hint at the setting that may be meant, of `known` names and their spelling."""
    word = name.lower().replace("-", "_").removeprefix("gateway_")
    longer = [each for each in known if each.startswith(word)] if len(word) > 3 else []
    meant = next((found for found, others in _MEANT.items() if word in others), "")
    if not meant:
        near = [word] if word in known else longer or difflib.get_close_matches(word, known, 1)
        meant = near[0] if near else ""
    return f"did you mean {known.get(meant, meant)}?" if meant else "`gateway check-config --list` names them all"


def sentence(error: ValidationError, sources: Sources, fields: Mapping[str, FieldInfo]) -> str:
    """The first error, with the setting's place, its value, and the values allowed.  `fields`: of all settings."""
    first = error.errors()[0]
    fault = first.get("ctx", {}).get("error")
    if isinstance(fault, toml_file.TableError):
        return toml_file.sentence(fault, sources.file if sources.is_in_file(fault.kind) else None)
    reason = first["msg"].removeprefix("Value error, ")
    reason = reason[:1].lower() + reason[1:]
    if isinstance(fault, SettingsConflict):
        values = ", ".join([f"{name} is {value} ({sources.of(name)})" for name, value in fault.values.items()])
        return f"settings do not fit together: {reason}; {values}"
    name = str(first["loc"][0])
    if first["type"] == "value_error":  # a sentence of ours, which shows the value where it helps
        return f"{sources.place(name)} is wrong: {reason}"
    shown = "" if name in SECRETS else f", not {_shown(first['input'], kinds.quantity_of(fields[name]))}"
    return f"{sources.place(name)} must be {kinds.words(fields[name])}{shown}"


def _shown(value: object, quantity: kinds.Quantity | None) -> str:
    """A value as in the file, a number with its unit."""
    text = toml_file.shown(value)
    return f"{text} {quantity.unit}" if quantity and isinstance(value, (int, float)) else text
