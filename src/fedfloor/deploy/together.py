"""Pieces of work that make sense only together."""

__all__ = ["until_one_ends"]

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_one_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until one of them ends, cancel the others, and raise what the first one raised."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            task.result()
