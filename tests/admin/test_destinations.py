"""Destinations over HTTP: the list, one with its policy, and the end of a durable subscription."""

from __future__ import annotations

from .running import Running, running


class TestDestinations:
    async def test_rows_and_filters(self, site: Running) -> None:
        alice = await site.peer(login="alice")
        await alice.subscribe("/queue/a", id="1")
        await alice.subscribe("/topic/b.*", id="2")
        await alice.subscribe("/topic/c", id="3")
        await alice.publish("/queue/d", b"waits", receipt="r")
        await alice.publish("/queue/dlq.d", b"dead", receipt="r")
        await alice.frame("RECEIPT")
        await alice.frame("RECEIPT")

        async def names(**query: object) -> list[str]:
            return [row["name"] for row in (await site.get("destinations", **query))["destinations"]]

        assert await names() == ["/queue/a", "/topic/c", "/queue/d", "/queue/dlq.d", "/topic/b.*"]
        assert await names(kind="pattern") == ["/topic/b.*"]
        assert await names(kind="queue", sort="-name") == ["/queue/dlq.d", "/queue/d", "/queue/a"]
        assert await names(state="waiting", sort="name") == ["/queue/d", "/queue/dlq.d"]
        assert await names(state="dead-letters") == ["/queue/dlq.d"]
        assert await names(state="no-consumer", q="/D") == ["/queue/d", "/queue/dlq.d"]
        assert await names(state="full") == []
        await alice.subscribe("/topic/b.x", id="4")  # the pattern's subscriber gets its messages, too
        assert await names(q="/topic/", sort="-consumers") == ["/topic/b.x", "/topic/c", "/topic/b.*"]
        answer = await site.ask("GET", "destinations", series="true", limit="101")
        assert (answer.status, answer.error) == (400, "limit must be at most 100 with series=true")
        answer = await site.ask("GET", "destinations", state="broken")
        assert answer.error == "state must be one of waiting, full, no-consumer, dead-letters, losing, lost, conflated"
        await alice.aclose()

    async def test_one_with_its_policy(self, site: Running) -> None:
        alice = await site.peer(login="alice")
        await alice.subscribe("/queue/a", id="1")
        found = await site.get("destination", name="/queue/a")
        assert (found["kind"], found["subscriptions"], found["groups"]) == ("queue", 1, 0)
        assert (found["policy"]["max_attempts"], found["policy"]["when_full"]) == (10, "block")
        assert [each["login"] for each in found["subscription_list"]] == ["alice"]
        assert found["policy_of_clients"] == []
        await alice.subscribe("/queue/b", id="3", **{"x-message-ttl": "500"})
        found = await site.get("destination", name="/queue/b")
        assert (found["policy"]["time_to_live"], found["policy_of_clients"]) == (0.5, ["time_to_live"])
        await alice.subscribe("/topic/c", id="4")
        await alice.subscribe("/topic/*", id="5")
        found = await site.get("destination", name="/topic/c")
        assert [each["destination"] for each in found["pattern_subscription_list"]] == ["/topic/*"]
        assert (found["subscriptions"], found["pattern_subscriptions"]) == (1, 1)
        assert (await site.ask("GET", "destination", name="/queue/none")).status == 404
        answer = await site.ask("GET", "destination")
        assert (answer.status, answer.error) == (400, "name is missing: as GET /api/v1/destinations has it")
        await alice.aclose()


class TestPresence:
    async def test_the_users_of_a_topic(self) -> None:
        async with running(policy=[{"match": "/topic/room.*", "presence": True}]) as site:
            alice, guest = await site.peer(login="alice"), await site.peer(client_id="tablet")
            await alice.subscribe("/topic/room.7", id="1", presence_info="Alice A.")
            await guest.subscribe("/topic/room.7", id="1")
            await guest.settled()
            await alice.settled()
            found = await site.get("presence", destination="/topic/room.7")
            assert (found["total"], found["settling"], found["destination"]) == (2, True, "/topic/room.7")
            rows = sorted((row["id"], row["user"], row["info"], row["sessions"]) for row in found["users"])
            assert rows == [("guest:tablet", None, None, 1), ("user:alice", "alice", "Alice A.", 1)]
            second = await site.get("presence", destination="/topic/room.7", offset=1, limit=1)
            assert second["users"] == found["users"][1:]
            assert (await site.get("presence", destination="/topic/room.8"))["users"] == []
            for name in ("/topic/other", "/queue/a", "room.7"):
                answer = await site.ask("GET", "presence", destination=name)
                assert (answer.status, answer.error) == (
                    404,
                    "no policy says presence = true for a topic of that name",
                )
            await alice.aclose()
            await guest.aclose()


class TestDurable:
    async def test_an_orphan_is_ended(self, site: Running) -> None:
        alice = await site.peer(login="alice", client_id="desk")
        await alice.subscribe("/topic/a", id="1", durable="true")
        (name,) = [row["name"] for row in (await site.get("destinations", q="/dsub/"))["destinations"]]
        answer = await site.ask("DELETE", "destination", name=name)
        assert answer.status == 409
        await alice.send_frame("DISCONNECT", receipt="end")
        await alice.frame("RECEIPT")
        await alice.aclose()
        found = await site.get("destination", name=name)
        assert (found["subscription_list"], found["title"]) == ([], "alice: /topic/a")
        assert [row["name"] for row in (await site.get("destinations", q="/topic/A"))["destinations"]][-1] == name
        await site.post("publish", {"destination": "/queue/z", "body": ""})
        titles = [row["title"] for row in (await site.get("destinations", sort="title"))["destinations"]]
        assert titles == ["/queue/z", "/topic/a", "alice: /topic/a"], "as they are shown, and not by /dsub/"
        found = await site.get("destination", name="/topic/a")
        assert [each["title"] for each in found["durable_subscription_list"]] == ["alice: /topic/a"]
        answer = await site.ask("DELETE", "destination", name=name)
        assert (answer.status, answer.body) == (204, b"")
        answer = await site.ask("DELETE", "destination", name=name)
        assert answer.status == 404
