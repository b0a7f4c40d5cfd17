"""What data sets look like, and who holds what."""

__all__ = ["downloading", "print_holding", "print_short", "print_verified"]

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from fedfloor.console.terminal import ERR, OUT, table_of


@contextmanager
def downloading(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """What to call with a file's name, its bytes so far and in all: a live bar per file on standard error."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=ERR,
        transient=True,
        disable=quiet or not ERR.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def show(file: str, done: int, total: int) -> None:
        if file not in tasks:
            tasks[file] = bar.add_task(file, total=total)
        bar.update(tasks[file], completed=done)

    with bar:
        yield show


def print_verified(report: Mapping[str, Any]) -> None:
    """A data set in figures, then its files."""
    shape = "x".join(map(str, report["shape"]))
    OUT.print(f"{report['name']} can be read: {report['origin']}", style="bold", soft_wrap=True)
    OUT.print(f"{report['training']:,} training and {report['test']:,} test samples of {shape}")
    classes = table_of("samples per class", "class", *map(str, range(report["classes"])))
    classes.add_row("training", *(f"{count:,}" for count in report["training_per_class"]))
    classes.add_row("test", *(f"{count:,}" for count in report["test_per_class"]))
    OUT.print(classes)
    for file in report["files"]:
        OUT.print(f"checksum {file['checksum']}: {file['path']}", soft_wrap=True)


def print_holding(found: Mapping[str, Any], most: int = 60) -> None:
    """Who holds what, darker for more."""
    devices = found["devices"]
    total = sum(device["held"] for device in devices)
    OUT.print(f"{found['data']} ({found['origin']}), partition '{found['partition']}'", style="bold")
    OUT.print(f"{total:,} samples on {len(devices)} devices, {found['test_samples']:,} test samples")
    classes = len(devices[0]["classes"])
    largest = max(max(device["classes"]) for device in devices)
    table = table_of("samples per class", "floor", "device", *map(str, range(classes)), "all", left=2)
    for column in table.columns[2 : 2 + classes]:
        column.justify = "center"
    for device in devices[:most]:
        cells = [_shaded(count, largest) for count in device["classes"]]
        wish = f" of {device['asked']}" if device["held"] < device["asked"] else ""
        table.add_row(device["floor"], device["name"], *cells, f"{device['held']}{wish}")
    OUT.print(table)
    if len(devices) > most:
        OUT.print(f"and {len(devices) - most} more devices")
    print_short(found)


def print_short(found: Mapping[str, Any]) -> None:
    """Devices that get fewer samples than they ask for, if there are any, or why nobody looked."""
    if found["devices"] is None:
        OUT.print(f"Whether classes run out was not looked at: {found['reason']}.", soft_wrap=True)
        return
    short = [device for device in found["devices"] if device["held"] < device["asked"]]
    if short:
        first = f"{short[0]['name']} gets {short[0]['held']} of {short[0]['asked']}"
        text = f"{len(short)} devices hold fewer samples than they ask for, their classes run out: {first}"
        OUT.print(f"{text}{', ...' if len(short) > 1 else '.'}", style="yellow")


def _shaded(count: int, largest: int) -> str:
    """A block that is darker the more there is."""
    return "█▓▒░"[min(3, int(4 * (1 - count / largest)))] * 3 if count else "."
