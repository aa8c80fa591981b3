"""A new job: a form and a YAML text that say the same spec; what was typed survives every error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from queues import queries, services
from queues.forms import JobForm, faults, left_out, spec_of, values_of
from queues.queries.rows.reasons import Plan
from queues.stopwatch import within
from queues.views.drawing import bar_groups
from queues.yamltext import dump, line_of, lines
from tenants import queries as tenants
from tenants.errors import DomainError, FieldError, Invalid, NotFound, Unreadable
from tenants.pages import palette, signed_in
from tenants.permissions import Actor, actor_of
from tenants.rest.parsers import read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LONGEST = 100_000
MOST_LINES = 10_000
MOST_NAMED = 5
AT_LINE = re.compile(r"line (\d{1,6})\b", re.ASCII)
PLAN_SECONDS = 3.0
# What the manifest's tab shows until one is pasted over it.
MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: hello
spec:
  completionMode: Indexed
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: registry.example/hello:1
          command: [nvidia-smi]
          resources:
            limits: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}
"""
EXAMPLE = {
    "name": "hello",
    "shape": "independent",
    "tasks": "1",
    "gpus": "1",
    "image": "registry.example/hello:1",
    "command": "nvidia-smi",
    "time_limit": "10m",
}


@require_http_methods(["GET", "POST"])
@signed_in
def new(request: HttpRequest) -> HttpResponse:
    """Show the form, turn it into YAML and back, or submit."""
    by = actor_of(request)
    choices = offered(by)
    if request.method == "GET":
        return start(request, by, choices)
    go, tab = request.POST.get("go", "submit"), request.POST.get("tab", "form")
    if tab == "yaml":
        return from_yaml(request, by, choices, go)
    form = JobForm(request.POST, choices=choices)
    form.is_valid()
    spec, odd = spec_of(typed(form)), faults(typed(form))
    if go == "yaml":
        # What no spec can say would be lost on the way.
        if odd:
            return shown(request, by, choices, form=form, errors=form.show(odd))
        return shown(request, by, choices, text=dump(spec))
    if go == "plan":
        return planned(request, by, choices, plan_of(by, lambda: sound(spec, odd)), form=form)
    try:
        return submitted(request, by, sound(spec, odd))
    except (Invalid, NotFound) as error:
        left = form.show(error.fields)
        return shown(request, by, choices, form=form, errors=left or ([] if error.fields else [whole(error)]))
    except DomainError as error:
        return shown(request, by, choices, form=form, errors=[whole(error)])


def sound(spec: object, odd: Sequence[FieldError]) -> object:
    """Return the spec that a form says. Raises Invalid where it says what no spec can."""
    if odd:
        raise Invalid(odd[0].detail, fields=odd)
    return spec


def start(request: HttpRequest, by: Actor, choices: Mapping[str, list[str]]) -> HttpResponse:
    """Show an empty form, the example, or (``from``) another job's spec to edit."""
    source = request.GET.get("from", "")
    if not source:
        line = next(iter(choices["lines"]), "")
        initial = {"line": line} | (EXAMPLE if "example" in request.GET else {})
        if request.GET.get("tab") == "manifest":
            return shown(request, by, choices, text=MANIFEST, manifest=True)
        if request.GET.get("tab") == "yaml":
            return shown(request, by, choices, text=dump(spec_of({**EXAMPLE, **initial, "borrow": True})))
        return shown(request, by, choices, form=JobForm(choices=choices, initial=initial))
    try:
        uid = UUID(source)
    except ValueError:
        raise NotFound("There is no such job to copy.") from None
    spec = dict(queries.job(by, uid, now=timezone.now(), position=False).spec)
    spec["metadata"] = {key: value for key, value in spec["metadata"].items() if key != "external_id"}
    if left_out(spec):
        return shown(request, by, choices, text=dump(spec))
    return shown(request, by, choices, form=JobForm(choices=choices, initial=values_of(spec)))


def from_yaml(request: HttpRequest, by: Actor, choices: Mapping[str, list[str]], go: str) -> HttpResponse:
    """Read the YAML text; show it as a form where one can say it all, or submit it."""
    text = request.POST.get("yaml", "")
    if len(text) > LONGEST:
        detail = f"This has {len(text):,} characters; the page takes {LONGEST:,}. Send longer ones by the API."
        return shown(request, by, choices, text=text, errors=[FieldError(pointer="", code="too_long", detail=detail)])
    data = text.encode(errors="surrogatepass")
    if go == "plan":
        return planned(request, by, choices, plan_of(by, lambda: read_yaml(data)), text=text)
    try:
        spec = read_yaml(data)
        if go == "form":
            more = left_out(spec)
            if not more:
                return shown(request, by, choices, form=JobForm(choices=choices, initial=values_of(spec)))
            return shown(request, by, choices, text=text, errors=no_fields(more))
        return submitted(request, by, spec)
    except DomainError as error:
        return shown(request, by, choices, text=text, errors=list(error.fields) or [whole(error)])


def no_fields(pointers: Sequence[str]) -> list[FieldError]:
    """Return what a text says and the form cannot, the first few at their lines."""
    detail = "The form has no fields for all that this says; submit it from here."
    named = [
        FieldError(pointer=pointer, code="form", detail=f"the form has no field for {pointer.removeprefix('/')}")
        for pointer in pointers[:MOST_NAMED]
        if pointer
    ]
    return [FieldError(pointer="", code="form", detail=detail), *named]


def submitted(request: HttpRequest, by: Actor, spec: object) -> HttpResponse:
    """Submit a spec and go to the job."""
    done = services.submit(spec=spec, by=by, now=timezone.now())
    messages.success(request, f"{done.job.name} is queued.")
    for notice in done.warnings:
        messages.warning(request, notice.detail)
    return HttpResponseRedirect(reverse("job", args=[done.job.uid]))


def plan_of(by: Actor, read: Callable[[], object]) -> Plan:
    """Return what would become of what was typed; what is wrong with it is part of the answer."""
    now = timezone.now()
    try:
        return queries.plan(by, read(), now=now, go_on=within(PLAN_SECONDS))
    except DomainError as error:
        return Plan(valid=False, as_of=now, errors=error.fields or (whole(error),))


def planned(
    request: HttpRequest,
    by: Actor,
    choices: Mapping[str, list[str]],
    plan: Plan,
    *,
    form: JobForm | None = None,
    text: str | None = None,
) -> HttpResponse:
    """Show a plan: as the fragment that is asked for while one types, or in the whole page."""
    if request.headers.get("HX-Request"):
        return render(request, "_partials/plan.html", {"plan": plan, "now": plan.as_of})
    errors = list(plan.errors) if form is None else form.show(plan.errors)
    return shown(request, by, choices, form=form, text=text, errors=errors, plan=plan)


def shown(
    request: HttpRequest,
    by: Actor,
    choices: Mapping[str, list[str]],
    *,
    form: JobForm | None = None,
    text: str | None = None,
    errors: list[FieldError] | None = None,
    plan: Plan | None = None,
    manifest: bool = False,
) -> HttpResponse:
    """Show one of the tabs with what was typed, what is wrong with it, and what would become of it."""
    places = lines(text) if text is not None else {}
    wrong = [(line_at(error, places), error) for error in errors or []]
    bad = {line for line, _ in wrong}
    count = min((text or "").count("\n") + 1, MOST_LINES)
    bars = [row for row in queries.team_bars(by, now=timezone.now()) if not row.department and row.mine]
    context: dict[str, Any] = {
        "form": form,
        "text": text,
        "errors": wrong,
        "numbers": [(number, number in bad) for number in range(1, count + 1)],
        "rows": count + 3,
        "choices": choices,
        "groups": bar_groups(bars),
        "palette": palette(by),
        "source": request.GET.get("from", ""),
        "plan": plan,
        "manifest": manifest,
        "now": timezone.now(),
    }
    failed = not plan.valid if plan else bool(errors) or (form is not None and form.is_bound)
    return render(request, "portal/new.html", context, status=422 if failed else 200)


def line_at(error: FieldError, places: dict[str, int]) -> int | None:
    """Return the line of an error: its field's, or the one that the reader of YAML names; None about the whole."""
    told = AT_LINE.findall(error.detail) if error.code == "bad_yaml" else ()
    if told:
        return int(told[-1])  # what it quotes comes before
    return line_of(error.pointer, places)


def whole(error: DomainError) -> FieldError:
    """Return an error that is about no field as one about the whole."""
    code = "bad_yaml" if isinstance(error, Unreadable) else "whole"
    return FieldError(pointer="", code=code, detail=error.detail)


def typed(form: JobForm) -> dict[str, Any]:
    """Return what was typed, also where a choice is not offered: the reader of specs names what is allowed."""
    return {name: form[name].data for name in form.fields}


def offered(by: Actor) -> dict[str, list[str]]:
    """Return the lines, GPU types, priority classes and levels of the topology to choose from."""
    return {
        "lines": list(queries.lines_for(by)),
        "flavors": tenants.flavor_names(by),
        "priorities": [row.name for row in queries.priority_classes()],
        "levels": list(queries.levels()),
    }
