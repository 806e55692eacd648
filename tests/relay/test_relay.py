"""What goes from one gateway to another: many destinations, headers, patterns, what is refused, and circles."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from gateway.auth import passwords
from gateway.client import StompServer
from tests.gateway_process import HOST, GatewayProcess
from tests.logged_command import eventually

from .relaying import Pair, Reader, Relay, relaying, running, send, url, waiting

LARGE = "x" * 1025
"""More than the target takes."""


class TestOnward:
    def test_many_destinations_in_order_over_one_connection(self, pair: Pair) -> None:
        names = [f"/queue/{pair.name}.{number}" for number in range(5)]
        bodies = [str(number) for number in range(300)]
        for each in names:
            send(pair.source, each, bodies)
        routes = [*names[:-1], f"{names[-1]}={names[-1]}.elsewhere"]
        with relaying(pair.folder, *pair.ends, *routes) as relay:
            for each in [*names[:-1], f"{names[-1]}.elsewhere"]:
                reader = Reader(pair.target, each)
                assert reader.until(300, lambda: relay.log) == bodies
                reader.client.disconnect()
        assert relay.events("relayed")[-1]["messages"] == 1500
        assert [waiting(pair.source, each) for each in names] == [[]] * 5

    def test_a_pattern(self, pair: Pair) -> None:
        """Where its messages were sent to, or all to one place."""
        routes = (f"/topic/{pair.name}.a.>", f"/topic/{pair.name}.b.*=/queue/{pair.name}.b")
        with relaying(pair.folder, *pair.ends, *routes) as relay:
            topic = Reader(pair.target, f"/topic/{pair.name}.#")
            probe = Reader(pair.target, f"/queue/{pair.name}.b")

            def subscribed() -> bool:
                send(pair.source, f"/topic/{pair.name}.b.z", ["probe"])
                return bool(probe.read(0.1))

            eventually(subscribed, lambda: relay.log)
            send(pair.source, f"/topic/{pair.name}.a.x.y", ["1"])
            send(pair.source, f"/topic/{pair.name}.b.x", ["2"])
            assert topic.until(1) == ["1"]
            assert topic.messages[0][0]["destination"] == f"/topic/{pair.name}.a.x.y"

            eventually(lambda: "2" in probe.read(0.1), lambda: relay.log)
        topic.client.disconnect()
        probe.client.disconnect()


class TestRefused:
    def test_it_is_a_dead_letter_and_the_others_go_on(self, pair: Pair) -> None:
        bodies = [LARGE if number in (7, 8, 30) else str(number) for number in range(40)]
        send(pair.source, f"/queue/{pair.name}", bodies)
        with relaying(pair.folder, *pair.ends, f"/queue/{pair.name}") as relay:
            reader = Reader(pair.target, f"/queue/{pair.name}")
            assert reader.until(37, lambda: relay.log) == [body for body in bodies if body != LARGE]
            told = relay.wait_for("a message is refused", 3)
        assert "max_body" in told[0]["reason"]
        dead = waiting(pair.source, f"/queue/dlq.{pair.name}")
        assert [body for _, body in dead] == [LARGE] * 3
        assert dead[0][0]["dlq-reason"] == "rejected"
        assert "max_body" in dead[0][0]["reason"]
        assert relay.events("relayed")[-1]["refused"] == 3
        reader.client.disconnect()


class TestCircles:
    def test_of_two_relays(self, pair: Pair) -> None:
        """It has been everywhere, and it is set aside, whichever names they have."""
        (pair.folder / "a").mkdir()
        (pair.folder / "b").mkdir()
        there = (*pair.ends, "--name", "there", f"/queue/{pair.name}")
        back = ("--from", url(pair.two), "--to", url(pair.one), "--name", "back", f"/queue/{pair.name}")
        with relaying(pair.folder / "a", *there) as first, relaying(pair.folder / "b", *back):
            send(pair.source, f"/queue/{pair.name}", ["round"])
            (told,) = first.wait_for("a message goes in a circle")
            assert "there" in told["reason"]
            eventually(lambda: bool(waiting(pair.source, f"/queue/dlq.{pair.name}")), lambda: first.log)
        ((headers, body),) = waiting(pair.source, f"/queue/dlq.{pair.name}")
        assert (body, headers["relayed"]) == ("round", "there,back")
        assert waiting(pair.target, f"/queue/{pair.name}") == []


class TestAway:
    def test_messages_stay_at_the_source(self, pair: Pair) -> None:
        """But for the prefetch; and when the target comes, they go."""
        bodies = [str(number) for number in range(500)]
        send(pair.source, f"/queue/{pair.name}", bodies)
        with running(pair.folder / "gateway") as late:
            late.stop()
            words = ("--from", url(pair.one), "--to", url(late), "--prefetch", "100", f"/queue/{pair.name}")
            with relaying(pair.folder, *words) as relay:
                relay.wait_for("the target is away")
                eventually(lambda: len(waiting(pair.source, f"/queue/{pair.name}")) == 400, lambda: relay.log)
                late.start()
                reader = Reader(StompServer(HOST, late.tcp_port), f"/queue/{pair.name}")
                assert reader.until(500, lambda: relay.log) == bodies
                reader.client.disconnect()
                assert len(relay.events("the target is away")) == len(relay.events("the target works again")) == 1

    def test_topics_of_a_durable_relay(self, pair: Pair) -> None:
        """What was sent while no relay ran comes with the next."""
        words = (*pair.ends, "--durable", "--client-id", pair.name, f"/topic/{pair.name}=/queue/{pair.name}")
        reader = Reader(pair.target, f"/queue/{pair.name}")
        with relaying(pair.folder, *words) as relay:

            def came() -> bool:
                send(pair.source, f"/topic/{pair.name}", ["first"])
                return bool(reader.read(0.1))

            eventually(came, lambda: relay.log)
        send(pair.source, f"/topic/{pair.name}", ["meanwhile"])
        with relaying(pair.folder, *words) as relay:
            eventually(lambda: "meanwhile" in reader.read(0.1), lambda: relay.log)
        reader.client.disconnect()


class TestEnds:
    @pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
    def test_by_a_signal(self, pair: Pair, number: signal.Signals, status: int) -> None:
        """In the middle of its work: every message is at one side, and at one only."""
        bodies = [str(count) for count in range(5000)]
        send(pair.source, f"/queue/{pair.name}", bodies)
        relay = Relay(pair.folder, *pair.ends, f"/queue/{pair.name}")
        reader = Reader(pair.target, f"/queue/{pair.name}", ack="auto")
        reader.until(100, lambda: relay.log)
        assert relay.stop(number) == status
        reader.until(relay.events("relayed")[-1]["messages"])
        reader.client.disconnect()
        left = [body for _, body in waiting(pair.source, f"/queue/{pair.name}")]
        assert reader.bodies + left == bodies


class TestPasscodes:
    def test_a_wrong_one_at_the_start(self, two: GatewayProcess, name: str, tmp_path: Path) -> None:
        with running(tmp_path / "gateway", users_file=_users(tmp_path, "right")) as guarded:
            words = ("--from", url(guarded).replace("//", "//alice@"), "--to", url(two), f"/queue/{name}")
            relay = Relay(tmp_path, *words, STOMP_FROM_PASSCODE="wrong")
            assert relay.end() == 1
            assert relay.log.splitlines()[-1].startswith(f"Error: cannot relay: {HOST}:{guarded.tcp_port} says: login")
            assert "Traceback" not in relay.log
            assert "wrong" not in relay.log

    def test_a_source_that_cannot_be_subscribed(self, pair: Pair) -> None:
        relay = Relay(pair.folder, *pair.ends, f"/nowhere/{pair.name}")
        assert relay.end() == 1
        assert f"/nowhere/{pair.name}" in relay.log.splitlines()[-1]

    @pytest.mark.long
    def test_later_it_is_waited_for(self, pair: Pair) -> None:
        """An operator changed it, and will change it here, too, or there again."""
        (pair.folder / "passcode").write_text("right\n")
        with running(pair.folder / "gateway", users_file=_users(pair.folder, "right")) as guarded:
            words = ("--from", url(pair.one), "--to", url(guarded).replace("//", "//alice@"))
            with relaying(pair.folder, *words, "--to-passcode-file", "passcode", f"/queue/{pair.name}") as relay:
                send(pair.source, f"/queue/{pair.name}", ["1"])
                server = StompServer(HOST, guarded.tcp_port, login="alice", passcode="right")
                reader = Reader(server, f"/queue/{pair.name}")
                assert reader.until(1, lambda: relay.log) == ["1"]
                reader.client.disconnect()
                guarded.stop()
                _users(pair.folder, "another")
                guarded.start()
                eventually(lambda: "login refused" in guarded.log, lambda: relay.log)
                guarded.stop()
                _users(pair.folder, "right")
                guarded.start()
                send(pair.source, f"/queue/{pair.name}", ["2"])
                reader = Reader(server, f"/queue/{pair.name}")
                assert reader.until(1, lambda: relay.log) == ["2"]
                reader.client.disconnect()


def _users(folder: Path, passcode: str) -> Path:
    path = folder / "users"
    passwords.write_user(path, "alice", passwords.hash_passcode(passcode), None)
    return path


class TestUsage:
    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (("/queue/a",), "--from and --to are needed, or --config"),
            (("--from", "stomp://a:b@c", "--to", "stomp://b", "/queue/a"), "put it into STOMP_FROM_PASSCODE"),
            (("--config", "relay.toml", "/queue/a"), "--config goes with the options of the log only"),
        ],
    )
    def test_one_sentence(self, words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
        (tmp_path / "relay.toml").write_text("")
        relay = Relay(tmp_path, *words)
        assert relay.end() == 2
        assert sentence in " ".join(relay.log.split())
