"""How series are told apart."""

from fedfloor.reports.palette import look_of, looks_of


def test_looks_do_not_depend_on_the_order_of_policies() -> None:
    names = ["ddsra:v=1000,solver=exact", "random", "ddsra:v=0.01,solver=exact", "ddsra:v=20,solver=exact"]
    one, other = looks_of(names), looks_of(reversed(names))
    assert {look.label: look.colour for look in one} == {look.label: look.colour for look in other}
    assert [look.index for look in one] == [look.index for look in other] == [0, 1, 2, 3]


def test_looks_go_by_the_size_of_numbers_in_names() -> None:
    names = ["ddsra:v=1000", "ddsra:v=20", "ddsra:v=1e-05", "ddsra:v=0.01", "delay_driven"]
    colours = {look.label: look.colour for look in looks_of(names)}
    ranked = ["ddsra:v=1e-05", "ddsra:v=0.01", "ddsra:v=20", "ddsra:v=1000", "delay_driven"]
    assert [colours[name] for name in ranked] == [look_of(rank).colour for rank in range(5)]
