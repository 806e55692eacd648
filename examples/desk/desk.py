"""A chat with presence, live prices, quotes and a dashboard: one page, one service, one gateway.

    openssl rand -hex 32 > desk.key
    gateway serve                                  reads gateway.toml
    hypercorn desk:app --bind 127.0.0.1:8080       in another terminal; open http://127.0.0.1:8080/ in two tabs

Kill the gateway with SIGKILL and start it again: no price and no line is missing, and no user has left.
DESK_GATEWAY and DESK_PAGES say where it is, for the service and for pages.  A real application checks a passcode
before it gives a token.
"""

import itertools
import json
import os
import random
import time
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import jwt
from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse

from gateway.client import connect

GATEWAY = os.environ.get("DESK_GATEWAY", "stomp://127.0.0.1:61613")
PAGES = os.environ.get("DESK_PAGES", "ws://127.0.0.1:15674/ws")
STATIC = Path(__file__).parents[2] / "static"  # /client.js and /vendor/stomp.umd.min.js of each gateway
prices = {"tea": 3.20, "milk": 1.10, "honey": 6.50}
figures = Counter({"prices": 0, "quotes": 0})


def token(user):
    secret = Path("desk.key").read_text().strip()
    return jwt.encode({"sub": user, "exp": time.time() + 600}, secret, "HS256")


async def publish(client):
    for number in itertools.count(1):
        for product, price in prices.items():
            prices[product] = round(max(0.1, price + random.uniform(-0.1, 0.1)), 2)
            told = {"number": number, "price": prices[product]}
            await client.send(f"/topic/prices.{product}", json.dumps(told))  # waits while there is no gateway
            figures["prices"] += 1
        await client.send("/topic/desk.figures", json.dumps(figures), {"retain": "set"})
        await anyio.sleep(0.5)


async def answer(client):
    async for question in client.subscribe("/queue/desk.quotes", prefetch=10):
        async with question:
            order = question.json()
            await question.reply(json.dumps({"total": round(prices[order["product"]] * order["count"], 2)}))
            figures["quotes"] += 1


@asynccontextmanager
async def lifespan(_app):
    async with connect(GATEWAY, passcode=lambda: token("desk")) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(publish, client)
        tasks.start_soon(answer, client)
        yield
        tasks.cancel_scope.cancel()


app = FastAPI(lifespan=lifespan)


@app.get("/token")
def new_token(name: str):
    if not name.isalnum() or name == "desk":
        raise HTTPException(400, "take another name")
    return {"token": token(name), "url": PAGES}


for path, file in {
    "/": Path(__file__).with_name("desk.html"),
    "/client.js": STATIC / "client" / "index.js",
    "/stomp.js": STATIC / "vendor" / "stomp.umd.min.js",
}.items():
    app.add_api_route(path, lambda file=file: FileResponse(file), include_in_schema=False)
