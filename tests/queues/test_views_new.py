"""A new job: form and YAML say the same, errors stand where they belong, nothing typed is lost."""

import html
import re
from itertools import pairwise
from typing import Any

import pytest
import yaml

from queues.models import Job
from tests.queues import manifests
from tests.queues.lab import Lab, compact
from tests.queues.test_views_pages import browser

FORM = {
    "tab": "form",
    "go": "submit",
    "name": "sft",
    "line": "nlp/default",
    "shape": "gang",
    "tasks": "2",
    "gpus": "8",
    "gpu_type": "h100",
    "image": "reg.example/sft:1",
    "command": "torchrun train.py --name 'a b'",
    "env": "SEED=7\nPATH=/x=y",
    "time_limit": "2h",
    "priority": "high",
    "borrow": "on",
}


def test_a_filled_form_becomes_the_job_that_it_says(lab: Lab) -> None:
    response = browser(lab.ann).post("/jobs/new", FORM)

    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.uid}"
    assert (job.name, job.shape, job.units, job.priority_class.name) == ("sft", "gang", 16, "high")
    run = job.spec["spec"]["run"]
    assert run["command"] == ["torchrun", "train.py", "--name", "a b"]
    assert run["env"] == {"SEED": "7", "PATH": "/x=y"}


def test_a_wrong_form_says_at_each_field_what_is_allowed_and_keeps_what_was_typed(lab: Lab) -> None:
    wrong = {**FORM, "tasks": "0", "gpus": "eight", "time_limit": "soon", "name": "bad name!"}

    response = browser(lab.ann).post("/jobs/new", wrong)

    text = html.unescape(response.content.decode())
    assert response.status_code == 422
    assert Job.objects.count() == 0
    for field, typed in (("tasks", "0"), ("gpus", "eight"), ("time_limit", "soon"), ("name", "bad name!")):
        assert re.search(rf'name="{field}" value="{typed}"[^>]*aria-invalid="true"', text), field
        assert f'id="id_{field}_error"' in text
    assert "tasks is from 1 to 10000, not 0" in text
    assert "value=\"torchrun train.py --name 'a b'\"" in text
    assert "SEED=7" in text


def test_the_form_turns_into_yaml_and_back_without_loss(lab: Lab) -> None:
    client = browser(lab.ann)

    as_yaml = html.unescape(client.post("/jobs/new", {**FORM, "go": "yaml"}).content.decode())
    text = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", as_yaml, re.DOTALL)
    assert text is not None
    back = html.unescape(client.post("/jobs/new", {"tab": "yaml", "go": "form", "yaml": text[1]}).content.decode())

    spec = yaml.safe_load(text[1])
    assert spec["metadata"] == {"name": "sft", "team": "nlp", "queue": "default"}
    assert spec["spec"]["gpus"] == {"count": 8, "type": ["h100"]}
    for field in ("name", "tasks", "gpus", "image", "time_limit"):
        assert re.search(rf'name="{field}" value="{re.escape(FORM[field])}"', back), field
    assert 'value="gang" checked' in back
    assert "PATH=/x=y" in back
    assert Job.objects.count() == 0


FLEXIBLE = {**FORM, "shape": "elastic", "tasks": "9", "least": "2", "most": "6"}


def test_the_flexible_card_says_from_how_many_to_how_many_tasks(lab: Lab) -> None:
    client = browser(lab.ann)

    client.post("/jobs/new", FLEXIBLE)
    as_yaml = html.unescape(client.post("/jobs/new", {**FLEXIBLE, "go": "yaml"}).content.decode())
    text = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", as_yaml, re.DOTALL)
    assert text is not None
    back = html.unescape(client.post("/jobs/new", {"tab": "yaml", "go": "form", "yaml": text[1]}).content.decode())

    job = Job.objects.get()
    assert (job.shape, job.units, job.spec["spec"]["tasks"]) == ("elastic", 16, {"min": 2, "max": 6})
    assert yaml.safe_load(text[1])["spec"]["tasks"] == {"min": 2, "max": 6}
    assert 'value="elastic" checked' in back
    assert re.search(r'name="least" value="2"', back)
    assert re.search(r'name="most" value="6"', back)


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"most": ""}, "most", "max is needed: a whole number from 1 to 10000"),
        ({"most": "1"}, "most", "max is at least min, which is 2; not 1"),
        ({"least": "few"}, "least", "min is a whole number from 1 to 10000"),
        ({"least": "", "most": ""}, "most", "max is needed"),
    ],
)
def test_wrong_bounds_of_a_flexible_job_are_told_at_their_field(
    lab: Lab, changes: dict[str, str], field: str, says: str
) -> None:
    response = browser(lab.ann).post("/jobs/new", {**FLEXIBLE, **changes})

    text = html.unescape(response.content.decode())
    assert response.status_code == 422
    errors = re.search(rf'id="id_{field}_error">(.*?)</div>', text, re.DOTALL)
    assert errors is not None
    assert says in errors[1]


def test_the_plan_of_a_flexible_job_tells_its_minimum_and_what_it_may_grow_to(lab: Lab) -> None:
    page = html.unescape(browser(lab.ann).post("/jobs/new", {**FLEXIBLE, "go": "plan"}).content.decode())

    assert "There is room for its least tasks" in page
    assert "16 h100" in page
    assert "up to 48, as long as nobody else needs them" in page
    assert Job.objects.count() == 0


def test_an_error_in_yaml_is_shown_at_its_line_with_the_text_kept(lab: Lab) -> None:
    text = yaml.safe_dump(compact(tasks=0, priority="urgent"), sort_keys=False) + "# a remark\n"
    at = next(number for number, line in enumerate(text.splitlines(), 1) if line.strip().startswith("tasks"))

    response = browser(lab.ann).post("/jobs/new", {"tab": "yaml", "go": "submit", "yaml": text})

    page = html.unescape(response.content.decode())
    assert response.status_code == 422
    assert f'<a href="#line-{at}">Line {at}</a>: tasks is from 1 to 10000, not 0' in page
    assert f'<li id="line-{at}" class="bad">' in page
    assert "low, normal" in page or "normal" in page
    assert "# a remark" in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", "Line"),
        ("a: &x 1\nb: *x\n", "Anchors and aliases are not taken"),
        ("spec: 1\nspec: 2\n", "twice"),
        ("- just\n- a list\n", "a job is a mapping"),
        ("", "a job is a mapping"),
    ],
)
def test_a_text_that_is_no_job_is_refused_in_words(lab: Lab, text: str, words: str) -> None:
    response = browser(lab.ann).post("/jobs/new", {"tab": "yaml", "go": "submit", "yaml": text})

    assert response.status_code == 422
    assert words in html.unescape(response.content.decode())
    assert Job.objects.count() == 0


@pytest.mark.parametrize("body", ["run: {secrets: 5}", "gpus: {type: 5}", "run: {command: {a: 1}}", "tasks: {min: []}"])
def test_yaml_of_wrong_types_is_no_crash_on_its_way_into_the_form(lab: Lab, body: str) -> None:
    text = f"metadata: {{}}\nspec: {{{body}}}\n"

    response = browser(lab.ann).post("/jobs/new", {"tab": "yaml", "go": "form", "yaml": text})

    assert response.status_code in {200, 422}


def test_an_empty_form_says_what_is_needed_at_its_fields(lab: Lab) -> None:
    response = browser(lab.ann).post("/jobs/new", {"tab": "form", "go": "submit", "line": "nlp/default"})

    page = html.unescape(response.content.decode())
    assert response.status_code == 422
    assert 'id="id_image_error"' in page
    assert "/spec/run" not in page


ADVANCED = {
    **FORM,
    "volumes": "/data claim=corpus read_only\n\n'/my scratch' size=200Gi\n/fast size=8Gi memory",
    "shm": "64Gi",
    "secret_env": "HF_TOKEN=hf/token",
    "pull_secrets": "registry, other",
    "args": "--note 'a b' --epochs 3",
    "node_labels": "zone=a",
    "shape": "gang",
    "near": "required:rack",
    "pre_stop": "python save.py",
    "grace": "10s",
}


def test_the_advanced_part_says_what_the_api_takes(lab: Lab) -> None:
    browser(lab.ann).post("/jobs/new", ADVANCED)

    body = Job.objects.get().spec["spec"]
    assert body["run"]["volumes"] == [
        {"path": "/data", "claim": "corpus", "read_only": True},
        {"path": "/my scratch", "size": "200Gi"},
        {"path": "/fast", "size": "8Gi", "memory": True},
    ]
    assert body["run"]["secret_env"] == {"HF_TOKEN": "hf/token"}
    assert body["run"]["pull_secrets"] == ["registry", "other"]
    assert body["run"]["args"] == ["--note", "a b", "--epochs", "3"]
    assert body["run"]["pre_stop"] == ["python", "save.py"]
    assert (body["resources"]["shm"], body["node_labels"], body["grace"]) == ("64Gi", {"zone": "a"}, "10s")
    assert body["topology"] == {"required": "rack"}


def test_the_advanced_part_survives_the_way_to_yaml_and_back(lab: Lab) -> None:
    client = browser(lab.ann)

    as_yaml = html.unescape(client.post("/jobs/new", {**ADVANCED, "go": "yaml"}).content.decode())
    text = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", as_yaml, re.DOTALL)
    assert text is not None
    back = client.post("/jobs/new", {"tab": "yaml", "go": "form", "yaml": text[1]}).context["form"]
    client.post("/jobs/new", {"tab": "yaml", "go": "submit", "yaml": text[1]})

    for field, typed in ADVANCED.items():
        if field not in {"tab", "go", "borrow", "volumes"}:
            assert back[field].value() == typed, field
    assert back["volumes"].value().splitlines() == [row for row in ADVANCED["volumes"].splitlines() if row]
    assert Job.objects.get().spec["spec"]["run"]["secret_env"] == {"HF_TOKEN": "hf/token"}


def test_what_was_submitted_comes_back_into_the_form_whole(lab: Lab) -> None:
    client = browser(lab.ann)
    client.post("/jobs/new", ADVANCED)
    first = Job.objects.get()

    page = client.get(f"/jobs/new?from={first.uid}")
    again = {"tab": "form", "go": "submit", **page.context["form"].initial}
    client.post("/jobs/new", {name: value for name, value in again.items() if value not in ("", False)})

    assert '<details class="fold" open>' in page.content.decode()
    second = Job.objects.exclude(id=first.id).get()
    assert second.spec == first.spec


def test_the_advanced_part_is_closed_until_it_says_something(lab: Lab) -> None:
    page = browser(lab.ann).get("/jobs/new").content.decode()

    assert page.count('<details class="fold">') == 2
    assert '<option value="preferred:rack">In one rack if possible</option>' in page
    assert '<option value="spread:node">Spread over nodes</option>' in page
    assert 'aria-describedby="id_volumes_helptext"' in page


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"volumes": "/a claim=x\ndata size=1Gi"}, "volumes", "Volume 2: path is an absolute path"),
        ({"volumes": "/a"}, "volumes", "Volume 1: a volume has one of claim, size and host"),
        ({"volumes": "/a claim=x readonly"}, "volumes", "did you mean read_only?"),
        ({"volumes": "'/a claim=x"}, "volumes", "Volume 1: a quote is left open"),
        ({"volumes": "/a host=/etc"}, "volumes", "paths of nodes are not allowed to team nlp"),
        ({"secret_env": "HF_TOKEN=token"}, "secret_env", "SECRET/KEY, like hf/token"),
        ({"env": "A=1\nA=2"}, "env", "A is there twice"),
        ({"args": "--name 'a"}, "args", "a quote is left open"),
        ({"service_account": "root"}, "service_account", "service"),
        ({"pre_stop": "x\x00y"}, "pre_stop", "characters that cannot be stored"),
        ({"grace": "2d"}, "grace", "grace is from 0s to 1h"),
        ({"near": "required:rak", "shape": "gang"}, "near", "did you mean rack?"),
        ({"near": "required:rack", "shape": "independent", "tasks": "2"}, "near", "say shape: gang"),
    ],
)
def test_a_wrong_advanced_field_is_told_at_the_field_which_is_open(
    lab: Lab, changes: dict[str, str], field: str, says: str
) -> None:
    response = browser(lab.ann).post("/jobs/new", {**FORM, **changes})

    text = html.unescape(response.content.decode())
    errors = re.search(rf'id="id_{field}_error">(.*?)</div>', text, re.DOTALL)
    assert response.status_code == 422
    assert Job.objects.count() == 0
    assert errors is not None
    assert says in errors[1]
    assert '<details class="fold" open>' in text


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"topology": {"spread": "rack", "max_skew": 2}}, "spec/topology/max_skew"),
        ({"run": {"image": "x", "env": {"A": "1\n2"}}}, "spec/run/env/A"),
        ({"run": {"image": "x", "env": {"A": " 1"}}}, "spec/run/env/A"),
        ({"run": {"image": "x", "volumes": [{"path": "/a\nb", "claim": "c"}]}}, "spec/run/volumes/0/path"),
        ({"surprise": 1}, "spec/surprise"),
    ],
)
def test_what_the_form_would_lose_is_named_and_stays_yaml(lab: Lab, body: dict[str, Any], left: str) -> None:
    text = yaml.safe_dump(compact(**body))

    response = browser(lab.ann).post("/jobs/new", {"tab": "yaml", "go": "form", "yaml": text})

    page = html.unescape(response.content.decode())
    assert f"the form has no field for {left}" in page
    assert "<textarea" in page
    assert response.context["form"] is None


def test_an_error_about_no_line_names_none(lab: Lab) -> None:
    text = "apiVersion: tidegate/v1\nkind: Job\nspec:\n  gpus: h100:1\n  run: {image: x}\n"

    page = html.unescape(
        browser(lab.ann).post("/jobs/new", {"tab": "yaml", "go": "submit", "yaml": text}).content.decode()
    )

    assert "<code>/metadata</code>: metadata is needed" in page
    assert 'href="#line-1"' not in page


def test_a_text_that_is_too_long_is_refused_whole_and_kept(lab: Lab) -> None:
    text = yaml.safe_dump(compact()) + "# " + "x" * 100_000 + " the end"

    response = browser(lab.ann).post("/jobs/new", {"tab": "yaml", "go": "submit", "yaml": text})

    page = response.content.decode()
    assert response.status_code == 422
    assert "the page takes 100,000" in page
    assert "x the end" in page
    assert Job.objects.count() == 0


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{key}: &{key} [{','.join([f'*{before}'] * 9)}]\n" for before, key in pairwise("abcdefghijkl")
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (BOMB, "Anchors and aliases are not taken; write the value out (line 1)", 1),
        ("kind: Job\na: &a [*a]\n", "Anchors and aliases are not taken; write the value out (line 2)", 2),
        ("[" * 50_000, "exceeded maximum nesting depth", 1),
        ('"a line b": 1\n"a line b": 2\n', "the key 'a line b' is there twice at line 2", 2),
        ("line: 1\nx: 1\nline: 2\n", "the key 'line' is there twice at line 3", 3),
    ],
)
def test_yaml_made_to_hurt_is_refused_at_its_line(lab: Lab, text: str, words: str, line: int) -> None:
    response = browser(lab.ann).post("/jobs/new", {"tab": "yaml", "yaml": text})

    page = html.unescape(response.content.decode())
    assert response.status_code == 422
    assert words in page
    assert f"Line {line}" in page


def test_yaml_that_the_form_cannot_say_stays_yaml(lab: Lab) -> None:
    text = yaml.safe_dump(
        {**compact(), "spec": {"shape": "gang", "groups": [{"name": "head", "tasks": 1, "gpus": "h100:1"}]}}
    )

    page = browser(lab.ann).post("/jobs/new", {"tab": "yaml", "go": "form", "yaml": text}).content.decode()

    assert "The form has no fields for all that this says" in page
    assert "name: head" in page


def test_duplicate_and_edit_fills_the_form_with_the_other_jobs_spec(lab: Lab) -> None:
    job = lab.submit(name="first", tasks=3, gpus="h100:2", metadata={"external_id": "dag/1"})

    page = browser(lab.art).get(f"/jobs/new?from={job.uid}").content.decode()

    assert re.search(r'name="name" value="first"', page)
    assert re.search(r'name="tasks" value="3"', page)
    assert "dag/1" not in page


@pytest.mark.parametrize("source", ["nonsense", "01a228cf-a398-798c-a8de-8189048a4a8d"])
def test_there_is_nothing_to_copy_from_a_job_that_is_not_there(lab: Lab, source: str) -> None:
    assert browser(lab.ann).get(f"/jobs/new?from={source}").status_code == 404


def test_a_job_of_another_team_cannot_be_copied(lab: Lab) -> None:
    job = lab.submit(lab.ann)

    assert browser(lab.carl).get(f"/jobs/new?from={job.uid}").status_code == 404


def test_nothing_is_submitted_to_a_team_that_one_is_not_in(lab: Lab) -> None:
    response = browser(lab.carl).post("/jobs/new", FORM)

    assert response.status_code == 422
    assert Job.objects.count() == 0
    assert "sft" in response.content.decode()


def test_while_one_types_the_fragment_says_what_would_become_of_the_job(lab: Lab) -> None:
    client = browser(lab.ann)

    response = client.post("/jobs/new", {**FORM, "go": "plan"}, headers={"HX-Request": "true"})

    text = html.unescape(response.content.decode())
    assert response.status_code == 200
    assert Job.objects.count() == 0
    assert "Starts now" in text
    assert "inside your guarantee" in text
    assert "<form" not in text


def test_a_job_that_must_wait_is_told_its_place_and_its_start(lab: Lab) -> None:
    for node in lab.nodes[:4]:
        lab.start(lab.submit(gpus="h100:8", time_limit="none"), node)
    lab.submit(gpus="h100:8", time_limit="1h")

    response = browser(lab.ann).post("/jobs/new", {**FORM, "go": "plan"}, headers={"HX-Request": "true"})

    text = " ".join(html.unescape(re.sub("<[^>]+>", " ", response.content.decode())).split())
    assert "Would wait" in text
    assert "as things stand all borrowed, which can be recalled" in text
    assert "#2, 8 GPUs ahead" in text
    assert "unknown: 4 running jobs have no time limit" in text


def test_a_job_that_is_not_whole_yet_is_told_so_without_alarm(lab: Lab) -> None:
    response = browser(lab.ann).post("/jobs/new", {**FORM, "name": "", "go": "plan"}, headers={"HX-Request": "true"})

    text = response.content.decode()
    assert response.status_code == 200
    assert "Not a whole job yet" in text
    assert "name" in text


def test_the_yaml_tab_is_planned_alike(lab: Lab) -> None:
    client = browser(lab.ann)
    spec = yaml.safe_dump(compact(gpus="h100:8", shape="gang", tasks=4))

    fine = client.post("/jobs/new", {"tab": "yaml", "go": "plan", "yaml": spec}, headers={"HX-Request": "true"})
    broken = client.post("/jobs/new", {"tab": "yaml", "go": "plan", "yaml": "a: ["}, headers={"HX-Request": "true"})

    assert "24 inside your guarantee, 8 borrowed" in html.unescape(fine.content.decode())
    assert "Not a whole job yet" in broken.content.decode()


def test_without_javascript_check_shows_the_plan_in_the_page_and_keeps_what_was_typed(lab: Lab) -> None:
    client = browser(lab.ann)

    fine = client.post("/jobs/new", {**FORM, "go": "plan"})
    wrong = client.post("/jobs/new", {**FORM, "go": "plan", "tasks": "0"})

    text = html.unescape(fine.content.decode())
    assert (fine.status_code, wrong.status_code) == (200, 422)
    assert "Starts now" in text
    assert "Nothing was submitted" not in text
    assert "value=\"torchrun train.py --name 'a b'\"" in text
    assert 'id="id_tasks_error"' in wrong.content.decode()
    assert Job.objects.count() == 0


def test_a_team_of_others_is_not_told_apart_from_one_that_is_not_there(lab: Lab) -> None:
    def said(line: str) -> str:
        body = {**FORM, "line": line, "go": "plan"}
        text = browser(lab.carl).post("/jobs/new", body, headers={"HX-Request": "true"}).content.decode()
        return text.replace(line.partition("/")[0], "?")

    assert said("nlp/default") == said("xyz/default")


def test_a_pasted_manifest_is_told_back_in_words_and_submitted(lab: Lab) -> None:
    page = browser(lab.ann)
    shown = page.get("/jobs/new", {"tab": "manifest"}).content.decode()
    text = yaml.safe_dump(manifests.job("pasted", pods=4, units=8))

    fragment = page.post("/jobs/new", {"tab": "yaml", "go": "plan", "yaml": text}, headers={"HX-Request": "true"})
    page.post("/jobs/new", {"tab": "yaml", "go": "submit", "yaml": text})

    assert "kind: Job" in shown
    assert "Job: 4 x 8 h100/l40s, all together" in fragment.content.decode()
    job = Job.objects.get(name="pasted")
    assert (job.kind, job.shape, job.units) == ("jobs.v1.batch", "gang", 32)
    spec = page.get(f"/jobs/{job.uid}", {"tab": "spec"}).content.decode()
    assert "parallelism: 4" in spec
    assert "tidegate.io/wave" in spec


def test_what_is_wrong_in_a_manifest_is_shown_at_its_line(lab: Lab) -> None:
    manifest = manifests.job("pasted")
    manifest["spec"]["template"]["spec"]["hostNetwork"] = True
    text = yaml.safe_dump(manifest, sort_keys=False)
    line = next(number for number, row in enumerate(text.splitlines(), start=1) if "hostNetwork" in row)

    page = browser(lab.ann).post("/jobs/new", {"tab": "yaml", "go": "submit", "yaml": text})

    assert page.status_code == 422
    assert f'<a href="#line-{line}">' in page.content.decode()
