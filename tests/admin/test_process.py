"""The admin API behind real sockets, from the login to the logout, as the console uses it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from gateway.auth.passwords import hash_passcode
from tests.app.process import SERVE, server

SECRETS = ("planted-token", "planted-passcode", "planted-wrong", "planted-body", "planted-metrics")


@pytest.mark.slow
def test_a_visit(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(f"alice:{hash_passcode('planted-passcode')}:ops\n")
    values = {
        "users_file": str(tmp_path / "users"),
        "admin_groups": "ops",
        "admin_token": "planted-token",
        "metrics_token": "planted-metrics",
        "login_delay": "0",
        "log_format": "json",
    }
    with server(SERVE, tmp_path, **values) as running:
        running.tcp_port()  # the application has started
        with httpx.Client(base_url=f"http://127.0.0.1:{running.http_port()}") as page:
            visit(page)
        lines = [event for event in running.events() if event["event"] == "admin"]
        log = running.log
    assert [(each["action"], each["outcome"], each["user"], each["via"]) for each in lines] == [
        ("log in", "refused", "alice", "passcode"),
        ("log in", "done", "alice", "passcode"),
        ("publish", "refused", "", ""),
        ("publish", "done", "alice", "cookie"),
        ("purge", "done", "alice", "cookie"),
        ("publish", "refused", "alice", "cookie"),
        ("log out", "done", "alice", "cookie"),
        ("publish", "refused", "", ""),
    ]
    assert all(each["peer"] == "127.0.0.1" for each in lines)
    assert [secret for secret in SECRETS if secret in log] == []


def visit(page: httpx.Client) -> None:
    assert page.get("/api/v1/me").json()["methods"] == ["token", "passcode"]
    refused = page.post("/api/v1/login", json={"login": "alice", "passcode": "planted-wrong"})
    assert (refused.status_code, len(page.cookies)) == (401, 0)
    csrf = page.post("/api/v1/login", json={"login": "alice", "passcode": "planted-passcode"}).json()["csrf"]
    assert page.get("/api/v1/sessions").json()["total"] == 0
    message = {"destination": "/queue/a", "body": "planted-body"}
    assert page.post("/api/v1/publish", json=message).status_code == 403
    page.headers["x-csrf-token"] = csrf
    assert page.post("/api/v1/publish", json=message).json() == {"published": True}
    assert page.get("/api/v1/messages?destination=/queue/a").json()["messages"][0]["body"] == "planted-body"
    assert page.post("/api/v1/queues/purge", json={"destination": "/queue/a"}).json() == {"purged": 1}
    too_large = page.post("/api/v1/publish", json={**message, "body": "x" * 1024 * 1024})
    assert too_large.status_code == 413
    assert page.get("/metrics", headers={"authorization": "Bearer planted-metrics"}).status_code == 200
    assert page.get("/api/v1/sessions", headers={"authorization": "Bearer planted-metrics"}).status_code == 401
    assert page.post("/api/v1/logout").status_code == 204
    assert len(page.cookies) == 0
    assert page.post("/api/v1/publish", json=message).status_code == 401
