"""Random worlds and timelines as scenario files."""

from random import Random


def timeline(dice: Random, *, calm: bool = False) -> str:
    """Return a scenario with teams, nodes, jobs of every shape and (unless ``calm``) what disturbs them."""
    flavors = ["g", "h"][: dice.choice([1, 1, 2])]
    racks = dice.random() < 0.3
    lines = ["policy: {" + ", ".join(_policy(dice)) + "}", *(["levels: [rack]"] if racks else [])]
    slots = {flavor: 2 for flavor in flavors if dice.random() < 0.15}
    if slots:
        lines.append("flavors:")
        lines += [f"  - {{name: {name}" + (", slots: 2" if name in slots else "") + "}" for name in flavors]
    lines.append("nodes:")
    capacity, nodes = dict.fromkeys(flavors, 0), []
    for flavor, place in [(flavor, place) for flavor in flavors for place in ("nm" if racks else "n")]:
        count, units = dice.randint(1, 2 if racks else 4), dice.choice([1, 2, 4, 8])
        more = f", rack: r{dice.randint(1, 2)}" if racks else ""
        more += f", cpu: {units * 2}" if dice.random() < 0.2 else ""
        more += ", outside: 1" if dice.random() < 0.1 and not calm else ""
        lines.append(f"  - {{name: {flavor}{place}, count: {count}, flavor: {flavor}, units: {units}{more}}}")
        capacity[flavor] += count * units * slots.get(flavor, 1)
        nodes += [f"{flavor}{place}{number}" for number in range(1, count + 1)]
    lines.append("teams:")
    departments, leaves = dice.randint(0, 2), []
    lines += [f"  - {{name: d{number}, {_quota(dice, capacity)}}}" for number in range(departments)]
    for number in range(dice.randint(2, 4)):
        parent = f"parent: d{dice.randrange(departments)}, " if departments and dice.random() < 0.7 else ""
        lines.append(f"  - {{name: t{number}, {parent}{_quota(dice, capacity)}}}")
        leaves.append(f"t{number}")
    events: list[tuple[int, str]] = []
    jobs = dice.randint(3, 20)
    for number in range(jobs):
        at = dice.randint(0, 600)
        events.append((at, f"submit: {{name: j{number}, {_job(dice, leaves, flavors, racks=racks)}}}"))
    if not calm:
        events += [(dice.randint(0, 900), _change(dice, nodes, leaves)) for _ in range(dice.randint(0, 7))]
        gone = [number for number in range(len(events)) if dice.random() < 0.05]
        events += [(events[number][0] + dice.randint(1, 25), f"cancel: j{number}") for number in gone if number < jobs]
    lines.append("timeline:")
    lines += [f"  - {{at: {at}s, {event}}}" for at, event in sorted(events, key=lambda row: row[0])]
    return "\n".join([*lines, "until: 25m", ""])


def _policy(dice: Random) -> list[str]:
    wishes = [
        (0.5, "hold_after: " + dice.choice(["0s", "2m", "5m"])),
        (0.4, "grace: " + dice.choice(["30s", "1m", "3m"])),
        (0.4, "min_runtime: " + dice.choice(["1m", "4m"])),
        (0.3, "preempt_within_team: lower_priority"),
        (0.25, "evictions_per_minute: " + dice.choice(["1", "2"])),
        (0.2, "per_user_limit: 5"),
        (0.2, "elastic_pause: 1m"),
        (0.2, "tick: event"),
        (0.3, "max_evictions: " + dice.choice(["0", "1", "2"])),
        (0.2, "hold_idle_limit: " + dice.choice(["60", "600"])),
        (0.15, "limit_needed_to_borrow: true"),
        (0.15, "default_time_limit: " + dice.choice(["2m", "10m"])),
        (0.15, "order: fifo"),
        (0.15, "aging: {every: " + dice.choice(["1m", "3m"]) + "}"),
        (0.15, "restart_cost: 0s"),
    ]
    return ["overcommit: true", *(wish for chance, wish in wishes if dice.random() < chance)]


def _quota(dice: Random, left: dict[str, int]) -> str:
    parts = []
    for flavor, most in left.items():
        units = dice.randint(0, most // 2)
        left[flavor] -= units
        parts.append(f"{flavor}: {units}")
    text = "guaranteed: {" + ", ".join(parts) + "}"
    for name in ("borrow_limit", "lend_limit"):
        if dice.random() < 0.25:
            text += f", {name}: {{g: {dice.randint(0, 3)}}}"
    return text + (f", weight: {dice.choice([0, 2, 5])}" if dice.random() < 0.3 else "")


def _job(dice: Random, leaves: list[str], flavors: list[str], *, racks: bool) -> str:
    shape = dice.choice(["independent", "gang", "gang", "elastic"])
    text = (
        f"team: {dice.choice(leaves)}, user: u{dice.randint(1, 3)}, shape: {shape}, units: {dice.choice([1, 1, 2, 3])}"
    )
    if shape == "elastic":
        text += f", min: {dice.randint(1, 2)}, max: {dice.randint(2, 6)}"
    else:
        text += f", tasks: {dice.randint(1, 6)}"
    if dice.random() < 0.6:
        runs = dice.randint(30, 400)
        text += f", runs: {runs}s" + (f", time_limit: {runs + 60}s" if dice.random() < 0.6 else "")
    if dice.random() < 0.3:
        text += f", priority: {dice.choice(['low', 'high'])}"
    if dice.random() < 0.2:
        text += dice.choice([", preemptible: false", ", borrow: false"])
    if racks and shape != "independent" and dice.random() < 0.4:
        text += f", {dice.choice(['required', 'preferred', 'spread'])}: rack"
    if dice.random() < 0.15:
        text += f", cpu: {dice.randint(1, 3)}"
    if shape == "gang" and "required" not in text and dice.random() < 0.15:
        return _grouped(text, dice, flavors)
    return text + (f", flavors: [{dice.choice(flavors)}]" if dice.random() < 0.3 else "")


def _grouped(text: str, dice: Random, flavors: list[str]) -> str:
    """Return the job with two groups instead of equal tasks."""
    fields = [part for part in text.split(", ") if part.partition(":")[0] not in {"units", "tasks", "cpu"}]
    rows = [f"{{tasks: {dice.randint(1, 2)}, flavors: [{dice.choice(flavors)}]}}" for _ in range(2)]
    return ", ".join([*fields, f"groups: [{', '.join(rows)}]"])


def _change(dice: Random, nodes: list[str], leaves: list[str]) -> str:
    return dice.choice(
        [
            f"node: {{name: {dice.choice(nodes)}, state: {dice.choice(['cordoned', 'ready'])}}}",
            f"node: {{name: {dice.choice(nodes)}, state: {dice.choice(['lost', 'lost', 'ready'])}}}",
            f"set_quota: {{team: {dice.choice(leaves)}, flavor: g, guaranteed: {dice.randint(0, 5)}}}",
            f"team: {{name: {dice.choice(leaves)}, paused: {dice.choice(['true', 'false'])}}}",
            f"team: {{name: {dice.choice(leaves)}, weight: {dice.choice([0, 1, 3])}}}",
            f"team: {{name: {dice.choice(leaves)}, per_user_limit: {dice.choice(['null', '3'])}}}",
            f"set_quota: {{team: {dice.choice(leaves)}, flavor: g, borrow_limit: {dice.choice(['null', '0', '3'])}}}",
            f"set_quota: {{team: {dice.choice(leaves)}, flavor: g, lend_limit: {dice.choice(['null', '0', '3'])}}}",
            f"node: {{name: {dice.choice(nodes)}, outside: {dice.randint(0, 3)}}}",
            "policy: {hold_after: 1m}",
        ]
    )
