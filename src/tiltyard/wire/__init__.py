"""Wire: the records of the HTTP API, each defined once and used by the routes and by the client.

They are frozen dataclasses. Making one checks nothing; pydantic checks what comes from the other side:
the server every request, the client every answer. The API's description is made from them.
"""
