"""A process of its own that listens with TLS, or dials again and again: `listen FOLDER` or `dial FOLDER PORT TIMES`."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from fedfloor.deploy.certificates import CA, CERTIFICATE, KEY
from fedfloor.deploy.link import Listener, Papers, dial
from fedfloor.deploy.messages import Hello, Welcome
from fedfloor.deploy.session import Session

AT_ONCE = 12


async def welcome(session: Session, _: Hello) -> None:
    await session.send(Welcome("{}"))
    await session.ended()


async def listen(papers: Papers) -> None:
    async with Listener("127.0.0.1:0", welcome, lambda *_: "", lambda: replace(papers)) as listener:
        print(listener.port, flush=True)
        await asyncio.Event().wait()


async def dial_often(papers: Papers, port: int, times: int) -> None:
    for _ in range(times):
        hello = Hello("device", "press", "", "{}")
        await (await dial(f"127.0.0.1:{port}", hello, lambda: papers, timeout=60.0)).session.close()


async def main(what: str, folder: Path, *numbers: int) -> None:
    papers = Papers(*((folder / name).read_bytes() for name in (CERTIFICATE, KEY, CA)))
    if what == "listen":
        await listen(papers)
    await asyncio.gather(*(dial_often(papers, *numbers) for _ in range(AT_ONCE)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])))
