"""`fedfloor gateway`."""

__all__ = ["gateway"]

from fedfloor.cli.options import WarningsOnlyOption, app, with_options
from fedfloor.deploy.options import GatewayOptions


@app.command()
@with_options(GatewayOptions)
def gateway(
    options: GatewayOptions = GatewayOptions(),  # noqa: B008  # frozen
    quiet: WarningsOnlyOption = False,
) -> None:
    """Run a gateway: it trains with the devices of its floor. Needs the extra 'deploy'.

    A gateway trains the tops of the network and answers the base station. The first line on standard output is
    the address on which devices can join. Ctrl-C or SIGTERM ends it.

    Example:  fedfloor gateway --server 10.0.0.1:7443 --listen 0.0.0.0:7444 --certs certs/gateway/press
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr
    from fedfloor.cli.show.machines import listening, logging_to_stderr

    address = listening(options.listen)
    with own_code_on_stderr(), logging_to_stderr(quiet=quiet):
        api.serve_floor(options, on_listening=address)
