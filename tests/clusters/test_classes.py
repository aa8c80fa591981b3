"""Which devices a class selects, and which classes can be read."""

from typing import Any

import pytest

from clusters import classes

DRIVER = "gpu.example.com"
CARD = {
    "name": "gpu-0",
    "attributes": {
        "type": {"string": "gpu"},
        "big": {"bool": True},
        "index": {"int": 3},
        "other.example.com/model": {"string": "M1"},
    },
}


def device_class(*expressions: str) -> classes.DeviceClass | None:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return classes.read({"metadata": {"name": "gpus"}, "spec": {"selectors": selectors}})


def attribute(text: str, domain: str = DRIVER) -> str:
    return f"device.attributes['{domain}'].{text}"


@pytest.mark.parametrize(
    "expressions",
    [
        (),
        (f"device.driver == '{DRIVER}'",),
        (f'device.driver == "{DRIVER}"',),
        (f"device.driver=='{DRIVER}'&&{attribute('type')}=='gpu'",),
        (f"device.driver == '{DRIVER}'", f"{attribute('type')} == 'gpu'"),
        (f" {attribute('big')} == true && {attribute('index')} == 3 ",),
        (attribute("model == 'M1'", domain="other.example.com"),),
    ],
)
def test_a_class_selects_devices_that_meet_all_its_equalities(expressions: tuple[str, ...]) -> None:
    found = device_class(*expressions)

    assert found is not None
    assert found.selects(DRIVER, CARD)
    assert found.selects(DRIVER, {"name": "gpu-0", "basic": CARD})


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'gpu.other.com'",
        f"device.driver == '{DRIVER}' && {attribute('type')} == 'mig'",
        f"{attribute('big')} == false",
        f"{attribute('big')} == 1",
        f"{attribute('index')} == '3'",
        f"{attribute('index')} == 4",
        f"{attribute('missing')} == 'gpu'",
        # An attribute without a domain is of the driver's own.
        attribute("type == 'gpu'", domain="other.example.com"),
        attribute("model == 'M1'"),
    ],
)
def test_a_class_leaves_out_devices_that_fail_one_of_them(expression: str) -> None:
    found = device_class(expression)

    assert found is not None
    assert not found.selects(DRIVER, CARD)


@pytest.mark.parametrize(
    "expression",
    [
        f"device.driver == '{DRIVER}' || {attribute('type')} == 'gpu'",
        f"{attribute('index')} > 2",
        f"{attribute('type')}.startsWith('g')",
        f"!({attribute('big')} == true)",
        f"device.driver != '{DRIVER}'",
        "device.capacity['gpu.example.com'].memory == quantity('80Gi')",
        "",
        "true",
    ],
)
def test_a_class_that_says_more_than_equalities_cannot_be_counted(expression: str) -> None:
    assert device_class(f"device.driver == '{DRIVER}'", expression) is None


@pytest.mark.parametrize(("effect", "selected"), [("NoSchedule", False), ("NoExecute", False), ("None", True)])
def test_a_tainted_device_is_not_given_away(effect: str, selected: bool) -> None:  # noqa: FBT001  a case of a table
    found = device_class()

    assert found is not None
    assert found.selects(DRIVER, {**CARD, "taints": [{"key": "sick", "effect": effect}]}) is selected


def test_a_class_is_counted_by_the_name_that_kubernetes_gives_it() -> None:
    found = device_class()

    assert found is not None
    assert found.resource == "deviceclass.resource.kubernetes.io/gpus"
    assert classes.class_of(found.resource) == "gpus"
    assert classes.class_of("nvidia.com/gpu") == ""
    assert classes.quota_of(found.resource) == "gpus.deviceclass.resource.k8s.io/devices"
    assert classes.quota_of("nvidia.com/gpu") == "requests.nvidia.com/gpu"


@pytest.mark.parametrize(
    ("annotation", "claims", "counted"),
    [
        ("gpus=2", [{"name": "gpus"}], {"deviceclass.resource.kubernetes.io/gpus": 2}),
        ("gpus=2", [], {}),
        ("gpus=0", [{"name": "gpus"}], {}),
        ("gpus=x", [{"name": "gpus"}], {}),
        ("", [{"name": "gpus"}], {}),
    ],
)
def test_what_a_pod_claims_is_read_from_its_annotation(
    annotation: str, claims: list[dict[str, Any]], counted: dict[str, int]
) -> None:
    assert classes.claimed_by(annotation, claims) == counted
