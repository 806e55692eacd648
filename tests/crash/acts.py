"""Acts of a life: edges that are killed, stopped, cut off or hung, while the clients of the others work on."""

from __future__ import annotations

import signal
from random import Random

import trio

from .crowd import Crowd
from .edges import EdgeProcess
from .plan import STOPPED, EdgeAct
from .process import Process

# Seconds in which edges that are lost must be there again.
_BACK = 90.0
_AGAIN = 0.02


class Acts:
    """Carries out acts.

    Args:
        edges: how many the gateway has.
    """

    def __init__(self, process: Process, crowd: Crowd, random: Random, edges: int) -> None:
        self._process = process
        self._crowd = crowd
        self._random = random
        self._edges = edges

    async def do(self, act: EdgeAct) -> None:
        """Carry it out, and wait until all edges are there again.  Raises trio.TooSlowError: they are not."""
        if act.victim == "primary":
            await self._stop_shortly([self._process])
            return
        victims = list(self._process.edges.values())
        if act.victim == "edge":
            victims = [self._random.choice(victims)]
        if act.way == "hang":
            await self._until_it_serves(victims[0])
        if act.way == "stop":
            await self._stop_shortly(victims)
            return
        for victim in victims:
            # Nobody connects to it any more, so that its clients are known.
            victim.signal(signal.SIGSTOP)
            self._crowd.lose(victim.clients())
            if act.way == "kill" or (act.way == "cut" and not victim.cut_link(self._process.pid)):
                victim.signal(signal.SIGKILL)
            elif act.way == "cut":
                victim.signal(signal.SIGCONT)
        with trio.fail_after(_BACK):
            while not self._are_back():  # noqa: ASYNC110 - the gateway says it
                await trio.sleep(_AGAIN)

    async def _until_it_serves(self, edge: EdgeProcess) -> None:
        """One that starts may be silent for longer."""
        with trio.fail_after(_BACK):
            while not edge.clients() & self._crowd.ports:  # noqa: ASYNC110 - clients come to it
                await trio.sleep(_AGAIN)

    def _are_back(self) -> bool:
        return self._process.edges_lost >= self._crowd.losses and len(self._process.edges) == self._edges

    async def _stop_shortly(self, victims: list[EdgeProcess] | list[Process]) -> None:
        """Stop processes as the machine's scheduler could, and let them go on."""
        for each in victims:
            each.signal(signal.SIGSTOP)
        try:
            await trio.sleep(STOPPED)
        finally:
            for each in victims:
                each.signal(signal.SIGCONT)
