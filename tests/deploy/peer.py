"""A process of its own that dials or listens, says what happens to it and can be stopped by a signal.

`listen`: print the port, welcome everybody and say why each session ended.
`dial PORT`: join, say so, and say why the session ended.
`busy PORT SECONDS`: join, keep Python's lock for so long, and then send a message.
"""

import asyncio
import ctypes
import sys

from fedfloor.deploy.link import Listener, dial
from fedfloor.deploy.messages import Failed, Hello, Welcome
from fedfloor.deploy.session import Session

HELLO = Hello("device", "press-7", "", "{}")


def say(*words: object) -> None:
    print(*words, flush=True)


async def welcome(session: Session, _: Hello) -> None:
    await session.send(Welcome("{}"))
    say("joined")
    say("ended:", await session.ended())


async def main(what: str, *arguments: int) -> None:
    if what == "listen":
        async with Listener("127.0.0.1:0", welcome, lambda *_: "") as listener:
            say(listener.port)
            await asyncio.Event().wait()
    session = (await dial(f"127.0.0.1:{arguments[0]}", HELLO)).session
    say("joined")
    if what == "busy":
        ctypes.PyDLL(None).sleep(arguments[1])  # unlike other calls, it keeps the lock
        await session.send(Failed("busy no more"))
    say("ended:", await session.ended())
    await session.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *(int(word) for word in sys.argv[2:])))
