"""Functions of the gateway itself: prices that clients ask for, follow and change.

    GATEWAY_HANDLERS=handlers_app:app gateway serve         in this folder

A client that subscribes to /app/prices gets one MESSAGE with all of them.  One that sends 4.10 to /app/prices/tea
changes that price: subscribers of /topic/prices.tea get it, and the sender gets an answer if its SEND has a
`reply-to`.  A body that is no price will never be one, so it is a dead letter at once (/queue/dlq.app).
"""

import json

from gateway.handlers import Handlers, Reject, Request

app = Handlers()
prices = {"tea": 3.2, "coffee": 2.9}


@app.subscribe("/app/prices")
async def all_prices(request: Request) -> str:
    return json.dumps(prices)


@app.send("/app/prices/{product}", concurrency=1)
async def change_price(request: Request, product: str) -> str:
    price = request.json()
    if product not in prices or not isinstance(price, float):
        raise Reject(f"{price!r} is no price of {product}")
    prices[product] = price
    request.send(f"/topic/prices.{product}", str(price), {"changed-by": request.user})
    return f"{product} costs {price}"
