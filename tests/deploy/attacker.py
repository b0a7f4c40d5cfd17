"""A process of its own that sends fuzzed frames to a listener: `PORT FRAMES`."""

import asyncio
import contextlib
import sys

from fedfloor.deploy import link
from fedfloor.deploy.coding import encode
from fedfloor.deploy.messages import Hello, Model, Turn
from tests.deploy.examples import MESSAGES, fuzzed, numbers

import grpc  # isort: skip  # after the link, which silences it
import numpy as np  # isort: skip

STREAMS = 6  #: per connection: grpc keeps those whose answers nobody reads, and a listener admits eight


async def attack(address: str, frames: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    valid = [frame for message in MESSAGES for frame in encode(message, Turn(1, 1))]
    valid += list(encode(Model(numbers(300_000, dtype="uint8")), Turn(1, 1)))
    greeting = next(encode(Hello("device", "press-7", "", "{}"), Turn()))
    left = frames
    while left > 0:
        async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            for _ in range(STREAMS):
                call = channel.stream_stream(f"/{link.SERVICE}/{link.METHOD}")()
                with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                    if rng.integers(2):
                        await call.write(greeting)
                    for _ in range(20):
                        left -= 1
                        await call.write(fuzzed(rng, valid))
                call.cancel()


async def main(port: int, frames: int) -> None:
    await asyncio.gather(*(attack(f"127.0.0.1:{port}", frames // 4, seed) for seed in range(4)))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
