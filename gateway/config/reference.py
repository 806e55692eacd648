"""Reference of the settings: the lists of `gateway check-config`; all of it comes from `gateway/config/settings.py`."""

import ast
import inspect
import json
import os
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from gateway.config.cluster import ClusterSettings
from gateway.config.edges import EdgeSettings
from gateway.config.errors import SECRETS, variable
from gateway.config.sections import JournalSettings, ObserveSettings, SecuritySettings
from gateway.config.settings import LISTENERS, MEMORY_ONLY, Address, Settings, keep_messages

HIDDEN = "(hidden)"

GROUPS = {
    "Listeners": (
        *("tcp", "tcp_tls", "websocket", "websocket_tls", "websocket_path", "http", "allowed_origins"),
        *("trusted_proxies", "tcp_proxy_protocol", "websocket_proxy_protocol"),
    ),
    "Edges": ("edges", "edge_listen", "edge_of", "edge_certificate", "edge_key", "edge_ca"),
    "TLS": ("tls_certificate", "tls_key", "tls_min_version", "tls_client_ca", "tls_client_certificates", "tls_user"),
    "Users": (
        *("users_file", "login_attempts", "login_delay", "authenticator"),
        *("jwt_keys", "jwt_issuer", "jwt_audience", "jwt_user_claim", "jwt_groups_claim", "jwt_leeway"),
        *("token_warning", "ticket_lifetime", "max_tickets", "cookie_name", "cookie_keys", "cookie_age", "cookie_user"),
    ),
    "Administration": (
        *("admin_token", "admin_groups", "metrics_token", "metrics_destinations", "log_format", "log_level"),
    ),
    "Sessions": (
        *("server_name", "server_version", "lenient", "handlers", "connect_timeout", "heartbeat_send"),
        *("heartbeat_receive", "heartbeat_margin", "websocket_ping", "close_linger", "drain_timeout", "drain_retry"),
    ),
    "Limits of a session": (
        *("max_headers", "max_header_line", "max_body", "max_connect_header_line", "max_connect_headers"),
        *("max_subscriptions", "max_transactions", "max_transaction_bytes", "max_unacknowledged"),
        *("max_unacknowledged_bytes", "max_outbound", "slow_consumer_timeout"),
        *("max_frames_per_second", "max_bytes_per_second"),
    ),
    "Limits of users and addresses": (
        *("max_connections", "max_connections_per_address", "max_connections_per_user", "max_handshakes"),
        *("max_frames_per_second_per_user", "max_bytes_per_second_per_user"),
        *("max_frames_per_second_per_address", "max_bytes_per_second_per_address"),
    ),
    "Memory": ("memory_limit", "memory_mark"),
    "Messages": (
        *("store", "max_destinations", "max_delayed", "max_durable_subscriptions", "max_retained"),
        *("dedup_window", "max_dedup_ids", "client_queue_arguments"),
    ),
    "Journal and pipeline": (
        *("journal", "journal_id", "journal_sync", "journal_queue", "journal_when_full", "journal_bodies"),
        *("journal_gauges", "archive", "tables"),
    ),
    "Events": ("events", "events_of", "events_of_sessions"),
    "Traces": ("trace_endpoint", "trace_ratio"),
    "Cluster": (
        *("cluster", "cluster_node", "cluster_address", "cluster_url", "cluster_servers", "cluster_replicas"),
        *("cluster_replicas_anyway", "cluster_user", "cluster_password", "cluster_token", "cluster_credentials"),
        *("cluster_tls", "cluster_ca", "cluster_tls_first", "cluster_certificate", "cluster_key"),
        *("cluster_standby_listens", "cluster_snapshot_after"),
    ),
    "Destinations": ("policy", "rule"),
}
"""Title of a section of the page -> its settings."""

TABLES = ("policy", "rule")  # the settings that are tables of the file, not lines or variables


@cache
def descriptions() -> dict[str, str]:
    """The text below each field of the settings.  Python drops it, so it is read from the source, only when asked."""
    found = {}
    for part in (Settings, SecuritySettings, JournalSettings, ObserveSettings, ClusterSettings, EdgeSettings):
        source = ast.parse(Path(inspect.getfile(part)).read_text(encoding="utf-8"))
        body = next(each for each in source.body if isinstance(each, ast.ClassDef) and each.name == part.__name__).body
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return found


def fields() -> list[tuple[str, FieldInfo]]:
    """All settings in the order of the page: addresses first, tables last."""
    return [(name, Settings.model_fields[name]) for names in GROUPS.values() for name in names]


def listed() -> Iterator[str]:
    """A line for each setting: name, variable, default."""
    for name, field in fields():
        where = f"[[{name}]] in the file" if name in TABLES else variable(name)
        yield f"{name:25} {where:32} {toml(field.default)}"


def in_force(settings: Settings) -> Iterator[str]:
    """All settings as `gateway.toml` has them, with their sources; secrets are hidden."""
    for name, _ in fields():
        value = _shown(name, settings)
        if name in TABLES and value:
            continue
        text = toml(value)
        line = f"{name} = {text}"
        # TOML has no null: a setting without a value is a comment.
        yield f"{'# ' if value is None else ''}{line:48} # {_source(name, settings)}"
    for policy in settings.policy:
        match = policy.match[0] if len(policy.match) == 1 else policy.match
        yield from _table("policy", {"match": match, **policy.values}, settings)
    for rule in settings.rule:
        yield from _table("rule", rule.values, settings)


def rows(settings: Settings) -> Iterator[dict[str, object]]:
    """All settings but the tables: name, group, value, source, default and description; secrets are hidden."""
    group_of = {name: title for title, names in GROUPS.items() for name in names}
    for name, field in fields():
        if name in TABLES:
            continue
        yield {
            "name": name,
            "group": group_of[name],
            "value": _plain(_shown(name, settings)),
            "source": _source(name, settings),
            "default": _plain(field.default),
            "description": descriptions()[name],
        }


def summary(settings: Settings) -> Iterator[str]:
    """The store, authenticators, rules and open addresses, as comments of `gateway.toml`."""
    ways = [name for name in ("users_file", "jwt_keys", "cookie_keys", "authenticator") if getattr(settings, name)]
    if settings.certificates_are_users:
        ways.append("tls_client_ca")
    memory = f"{MEMORY_ONLY}; {keep_messages()}"
    kept = f"durable messages are kept in {settings.store.removeprefix('sqlite:')}, and the others in memory"
    store, rules = memory if settings.store == "memory" else kept, "none, so every client may do everything"
    if settings.is_edge:
        store = rules = f"at the primary, {', '.join(settings.edge_of)}"
    yield f"# Store: {store}."
    yield f"# Authenticators: {', '.join(ways) or 'none, so every client may connect under any name'}."
    yield f"# Rules: {len(settings.rule) or rules}."
    yield f"# Admin API: {_admins(settings)}."
    texts = [(name, text, Address.parse(text)) for name in LISTENERS for text in getattr(settings, name)]
    reached = [f"{name} {text}" for name, text, address in texts if not (address.name or address.is_loopback)]
    reached += [f"{name} {text} if its .socket unit says so" for name, text, address in texts if address.name]
    nothing = "nothing directly" if settings.trusted_proxies else "nothing"
    yield f"# Other machines can reach: {', '.join(reached) or nothing}."


def _admins(settings: Settings) -> str:
    """The users of the admin API, in words."""
    ways = ["clients with the admin token"] if settings.admin_token else []
    if settings.admin_groups:
        ways.append(f"users of {', '.join(settings.admin_groups)}")
    return ", and ".join(ways) or "every program on this machine"


def _table(kind: str, values: Mapping[str, object], settings: Settings) -> Iterator[str]:
    yield ""
    yield f"{f'[[{kind}]]':48} # {_source(kind, settings)}"
    yield from (f"{key} = {toml(value)}" for key, value in values.items())


def _source(name: str, settings: Settings) -> str:
    if variable(name) in os.environ:
        return variable(name)
    return "file" if name in settings.model_fields_set else "default"


def _shown(name: str, settings: Settings) -> Any:
    """A value to be shown: no secrets, and absolute paths."""
    value = getattr(settings, name)
    if isinstance(value, Path):
        return value.absolute()
    if name == "store" and value != "memory":
        return f"sqlite:{Path(value.removeprefix('sqlite:')).absolute()}"
    return HIDDEN if name in SECRETS and value else value


def _plain(value: object) -> object:
    """A value as JSON has it."""
    if isinstance(value, Path):
        return str(value)
    return value.value if isinstance(value, Enum) else value


def toml(value: object) -> str:
    """A value as TOML writes it.  JSON's strings, numbers and arrays are valid TOML, except for one character."""
    shown = value.value if isinstance(value, Enum) else value
    return json.dumps(shown, default=str, ensure_ascii=False).replace("\x7f", "\\u007f")
