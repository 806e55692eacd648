"""Applications over HTTP: publish and listen with the rights of a user, without a STOMP client.

    requests       a request becomes a client of this process, by the login of a WebSocket's upgrade
    publish        POST /api/v1/messages
    event_source   GET /sse

Nothing here is for operators: no admin token is asked for, and none helps.
"""
