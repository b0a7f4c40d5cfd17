"""`fedfloor device`."""

__all__ = ["device"]

from fedfloor.cli.options import WarningsOnlyOption, app, with_options
from fedfloor.deploy.options import DeviceOptions


@app.command()
@with_options(DeviceOptions)
def device(
    options: DeviceOptions = DeviceOptions(),  # noqa: B008  # frozen
    quiet: WarningsOnlyOption = False,
) -> None:
    """Run a device: it trains with the gateway of its floor. Needs the extra 'deploy'.

    A device holds data and trains the bottom of the network. Ctrl-C or SIGTERM ends it.

    Example:  fedfloor device --gateway 10.0.1.1:7444 --data camera.npz --certs certs
    """
    from fedfloor import api
    from fedfloor.cli.show.machines import logging_to_stderr

    with logging_to_stderr(quiet=quiet):
        api.serve_devices(options)
