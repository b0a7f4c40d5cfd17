"""Every public function: same names, same defaults, same errors as the command line, which calls nothing else.

Unlike a command, a function writes a run folder only if `out` names one. `own=True` stands for `--own`: it runs the
code that a scenario file or a run folder names. Code that the arguments themselves name needs no such word.

Each topic has a module, which is imported when one of its names is first used. Libraries that take long to load are
imported by the functions that need them.
"""

__all__ = [
    "Comparison",
    "Run",
    "ScenarioCheck",
    "check",
    "compare",
    "compare_profiles",
    "compare_with",
    "decide_round",
    "evaluate",
    "fetch_data",
    "holding",
    "issue_certificate",
    "issue_certificates",
    "list_certificates",
    "listing",
    "load",
    "load_model",
    "make_certificates",
    "measure",
    "plan",
    "plan_round",
    "plan_runs",
    "profile",
    "read",
    "renew_certificate",
    "report",
    "revoke_certificate",
    "run",
    "run_planned",
    "scenario_schema",
    "serve",
    "serve_devices",
    "serve_floor",
    "serve_here",
    "simulate",
    "simulate_planned",
    "starter_flower_app",
    "starter_scenario",
    "tradeoff",
    "vary",
    "verify_data",
    "watch",
    "what_is_left",
]

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedfloor.api.certificates import (
        issue_certificate,
        issue_certificates,
        list_certificates,
        make_certificates,
        renew_certificate,
        revoke_certificate,
    )
    from fedfloor.api.comparisons import Comparison, compare, compare_with, report, tradeoff, watch
    from fedfloor.api.grids import vary
    from fedfloor.api.machines import serve, serve_devices, serve_floor, serve_here
    from fedfloor.api.plans import decide_round, plan, plan_round
    from fedfloor.api.runs import (
        Run,
        evaluate,
        load,
        load_model,
        plan_runs,
        read,
        run,
        run_planned,
        simulate,
        simulate_planned,
        what_is_left,
    )
    from fedfloor.api.scenarios import (
        ScenarioCheck,
        check,
        compare_profiles,
        fetch_data,
        holding,
        listing,
        measure,
        profile,
        scenario_schema,
        starter_flower_app,
        starter_scenario,
        verify_data,
    )

#: topic -> the names that its module gives to this package
_TOPICS = {
    "plans": "decide_round plan plan_round",
    "runs": "Run evaluate load load_model plan_runs read run run_planned simulate simulate_planned what_is_left",
    "grids": "vary",
    "comparisons": "Comparison compare compare_with report tradeoff watch",
    "scenarios": "ScenarioCheck check compare_profiles fetch_data holding listing measure profile scenario_schema "
    "starter_flower_app starter_scenario verify_data",
    "certificates": "issue_certificate issue_certificates list_certificates make_certificates renew_certificate "
    "revoke_certificate",
    "machines": "serve serve_devices serve_floor serve_here",
}
_HOMES = {name: topic for topic, names in _TOPICS.items() for name in names.split()}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import a topic when one of its names is first used."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
