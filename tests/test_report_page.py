"""The page: whole, self-contained, right about what it draws, and well-behaved in odd cases."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import fake_runs as fake
from hcsfed.cli.report import report
from hcsfed.errors import RunFolderError
from hcsfed.record import read_run
from hcsfed.report import look_again, render, write_page
from hcsfed.report.axes import Scale, log_ticks, ticks
from hcsfed.report.figures import spread
from hcsfed.report.heatmap import columns
from hcsfed.report.panels import common_top, picks, stage_seconds, weighing
from hcsfed.report.scenes import MOST_MARKS
from hcsfed.report.summary import summarise
from hcsfed.report.svg import DASHES, PALETTE, style

VOID = {"meta", "link", "input", "br", "hr", "img"}
PAPERS = ("#fdfcfa", "#15171b")


def cli(*arguments):
    return subprocess.run([sys.executable, "-m", "hcsfed", *arguments], capture_output=True, text=True, timeout=120)


class Reader(HTMLParser):
    """Elements, their attributes, and whether every one that opens is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.wrong = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def three_selectors():
    return [
        fake.run(name, seed, rate=rate, cohort=cohort, **({"top": 0.7} if name == "md" and seed == 1 else {}))
        for name, rate, cohort in (("full", 0.2, 20), ("random", 0.12, 4), ("md", 0.09, 4))
        for seed in range(3)
    ]


@pytest.fixture(scope="module")
def text():
    return render(three_selectors())


CASES = {
    "one run": lambda: [fake.run()],
    "no target": lambda: [fake.run(target=0.0), fake.run("md", target=0.0)],
    "regression": lambda: [fake.run(regression=True, target=0.0)],
    "never evaluated": lambda: [_unseen(fake.run(rounds=2, planned=9))],
    "no rounds yet": lambda: [fake.run(rounds=0, planned=5), fake.run("md")],
    "one round": lambda: [fake.run(rounds=1), fake.run("md", rounds=1)],
    "many clients": lambda: [fake.run(clients=1500), fake.run("md", clients=1500)],
    "pooled clients": lambda: [fake.run(clients=450, classes=40)],
    "nobody answered": lambda: [_silent(fake.run())],
    "different targets": lambda: [fake.run(target=0.5), fake.run(target=0.7)],
    "a bare header": lambda: [_bare(fake.run())],
    "twenty groups": lambda: [fake.run(cohort=m) for m in range(1, 21)],
}


def _silent(run):
    for record in run.history:
        record.update(ids=[], weights=[], upload_bytes=0, download_bytes=0, local_steps=0, train_loss=None)
    return run


def _unseen(run):
    for record in run.history:
        record.update(accuracy=None, loss=None)
    return run


def _bare(run):
    run.about.clear()
    return run


@pytest.mark.parametrize("case", CASES)
def test_a_page_is_whole_whatever_the_runs_are(case):
    text = render(CASES[case]())
    reader = Reader(text)
    assert (reader.wrong, reader.open) == ([], [])
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in reader.tags:
        for name in attrs.get("aria-labelledby", "").split():
            assert name in ids
    assert not re.search(r"\bnan\b|NaN|Infinity", text)


@pytest.mark.parametrize("scenes", [fake.scenes(), fake.scenes(1, False), fake.scenes(2500)])
def test_clients_stand_in_the_plane_twice(scenes):
    text = render([fake.run()], scenes)
    reader = Reader(text)
    assert (reader.wrong, reader.open) == ([], [])
    n = min(len(scenes[0].updates), MOST_MARKS)
    marks = re.findall(r"<title>client (\d+)(.*?)</title></(?:circle|path)>", text)
    assert 2 * n <= len(marks) <= 2 * (n + 2)
    assert ("Of very many clients some are drawn" in text) == (len(scenes[0].updates) > MOST_MARKS)
    assert len(re.findall(r'class="ring"', text)) == 2 * len(set(scenes[0].picked.tolist()))
    assert "nan" not in "".join(re.findall(r'<g class="marks">.*?</g>', text))
    if len(scenes[0].updates) == 60:
        assert ("59", ", cluster 11, π = 1, picked") in marks
        shapes = re.findall(r'class="marks">(.*?)</g>', text)[1]
        colours = re.findall(r'<(circle|path)(?: d="(.*?)")?[^>]*class="s(\d)"', shapes)
        looks = {(c, kind, d.count("L")) for kind, d, c in colours}
        assert len(looks) == 12, "twelve clusters look different"


def test_selectors_look_again_at_what_they_compare(tmp_path):
    words = ["--seeds", "2", "--rounds", "2", "--clients", "20", "--out", str(tmp_path), "--jobs", "1"]
    done = cli("compare", "--selectors", "random,pivotal,hcsfed:clusters=3", *words, "--picture-at", "1")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text("utf-8")
    section = page[page.index('id="planes"') : page.index('id="classes"')]
    assert re.findall(r"<h3>(.*?)</h3>", section) == ["pivotal", "hcsfed"]
    assert "64 numbers each" in section
    assert "cluster 1" in section
    runs = [read_run(path.parent) for path in tmp_path.rglob("settings.json")]
    assert len(look_again([run for run in runs if run.settings["selector"]["name"] == "random"], 1)) == 0


def test_nothing_outside_the_page_is_named(text):
    assert "http:" not in text
    assert "https:" not in text
    assert "//" not in re.sub(r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.S)
    assert not re.search(r"@import|url\(", text)
    sources = [a[key] for _, a in Reader(text).tags for key in ("src", "href") if key in a]
    assert sources == ["data:,"]


def test_pictures_have_names_and_descriptions(text):
    pictures = re.findall(r"<svg(?![^>]*aria-hidden)[^>]*>(.*?)</svg>", text, flags=re.S)
    assert len(pictures) >= 3 * 2 + 3 + 2
    for picture in pictures:
        assert re.match(r"<title id=\"[^\"]+\">.+?</title><desc id=\"[^\"]+\">.+?</desc>", picture)


def test_the_page_says_what_the_table_says(text):
    words = re.sub(r"<[^>]+>", "", text).replace("\u00a0", " ").replace("&gt;", ">")
    summary = summarise(three_selectors())
    for row in summary.rows:
        for m in summary.measures:
            assert row.estimates[m.key].text(m.unit).replace("\u00a0", " ") in words
    assert "> 30 (1 of 3 missed)" in words
    assert "95 % t-intervals" in words
    assert "uniformly without replacement" in words  # what `random` is, from its own docstring
    assert "logarithmic" in words  # full's uploads are five times the others'


def test_the_numbers_under_the_pointer_are_those_of_the_curves(text):
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, flags=re.S)[1])
    first = summarise(three_selectors()).groups[0]
    mean = np.mean([[r["accuracy"] for r in run.history] for run in first.runs], axis=0)
    assert data["curves"]["rounds"][0]["m"] == pytest.approx(mean, rel=1e-5)
    bytes_ = np.cumsum([r["upload_bytes"] for r in first.runs[0].history])
    assert data["curves"]["bytes"][0]["x"] == pytest.approx(bytes_, rel=1e-5)


def test_names_from_outside_cannot_become_markup():
    evil = "</script><script>alert(1)</script>"
    run = fake.run(evil)
    run.about["federation"]["name"] = evil
    text = render([run, fake.run("md")])
    assert "<script>alert" not in text
    assert Reader(text).wrong == []


def test_a_page_replaces_the_old_one_whole(tmp_path):
    out = tmp_path / "new" / "report.html"
    write_page([fake.run(rounds=3)], out)
    write_page([fake.run(rounds=4)], out)
    assert out.read_text("utf-8").startswith("<!doctype html>")
    assert [p.name for p in out.parent.iterdir()] == ["report.html"]
    with pytest.raises(RunFolderError, match="cannot write the report"):
        write_page([fake.run(rounds=3)], out / "below-a-file.html")


def luminance(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_every_line_and_label_can_be_read_on_its_paper(mode, text):
    """WCAG 2.2 asks for a contrast of 4.5 for text, 3 for graphics; labels have their line's colour."""
    assert f"--paper: light-dark({PAPERS[0]}, {PAPERS[1]})" in text
    soft = re.search(r"--soft: light-dark\((#\w+), (#\w+)\)", text).groups()
    for colour in [soft[mode], *(pair[mode] for pair in PALETTE)]:
        bright, dark = sorted((luminance(colour), luminance(PAPERS[mode])), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, colour


def test_lines_differ_without_colour_too():
    assert len({style(i) for i in range(64)}) == 64
    assert len({style(i)[1] for i in range(8)}) == len(DASHES) == 8


def test_picks_are_counted_per_client_and_run():
    runs = [fake.run(seed=s, rounds=10) for s in range(2)]
    (row,) = summarise(runs).rows
    counted = np.zeros(20)
    for run in runs:
        for record in run.history:
            counted[record["ids"]] += 0.5
    picked = picks(row.group)
    assert picked.times == pytest.approx(counted)
    assert picked.even == 10 * 4 / 20
    assert common_top(picked, [picked]) == counted.max()


def test_seconds_and_weights_are_means_over_rounds():
    run = fake.run(rounds=5)
    (row,) = summarise([run]).rows
    assert stage_seconds(row.group)["train"] == pytest.approx(0.02)
    for record in run.history:
        record["weights"] = [0.5, 0.5, 0.0, 0.0]
    w = weighing(row.group)
    assert w is not None
    assert (w.total, w.wobble, w.largest, w.effective) == (1.0, 0.0, 0.5, 2.0)


def test_clients_stand_by_the_class_they_hold_most_of_and_are_pooled_evenly():
    counts = [[0, 9], [9, 0], [5, 4], [0, 0]]
    drawn = columns(counts)
    assert [int(m[0]) for m in drawn.members] == [1, 2, 3, 0]
    assert not drawn.pooled
    pooled = columns(np.eye(10, dtype=int).repeat(50, axis=0), most=200)
    assert pooled.pooled
    assert len(pooled.members) == 200
    assert {len(m) for m in pooled.members} == {2, 3}
    assert pooled.shares.sum(1) == pytest.approx(1)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.13, 0.91), (0, 7), (0, 123_456), (-3, 2), (5, 5)])
def test_ticks_are_few_round_and_cover(low, high):
    marks = ticks(low, high)
    assert marks[0] <= low <= high <= marks[-1]
    assert 2 <= len(marks) <= 8
    steps = np.diff(marks)
    assert steps == pytest.approx(steps[0])


def test_log_ticks_stay_inside_and_few():
    assert log_ticks(1, 100) == [1, 3, 10, 30, 100]
    assert log_ticks(3, 60) == [5, 10, 20, 50]
    assert log_ticks(1, 1e9, most=4) == [1, 1e3, 1e6, 1e9]


def test_equal_factors_are_equal_distances_on_a_log_scale():
    x = Scale(1, 1000, 0, 300, log=True)
    assert [x(v) for v in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])


def test_labels_are_pushed_apart_no_further_than_needed():
    assert spread([10, 50, 90], 15, 0, 100) == [10, 50, 90]
    assert spread([10, 12, 14], 15, 0, 100) == [10, 25, 40]
    assert spread([95, 98, 99], 15, 0, 100) == [70, 85, 100]


def test_a_notebook_shows_a_run_with_its_figure():
    first, second = fake.run(), fake.run("md", 1)
    shown = first._repr_html_()
    assert "rounds to target" in shown
    assert "<svg" in shown
    assert "http" not in shown
    ids = re.findall(r'id="([^"]+)"', shown + second._repr_html_())
    assert len(ids) == len(set(ids)) == 4
    assert "no rounds" not in fake.run(rounds=0)._repr_html_()


def _folder(run, path):
    path.mkdir(parents=True)
    header = {"settings": run.settings, "about": run.about}
    (path / "settings.json").write_text(json.dumps(header), "utf-8")
    (path / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in run.history), "utf-8")


def test_the_command_finds_runs_in_and_below_folders(tmp_path, capsys):
    for seed in range(2):
        _folder(fake.run("md", seed), tmp_path / "runs" / f"md-{seed}")
    _folder(fake.run("random", rounds=0, planned=5), tmp_path / "runs" / "waiting")
    out = tmp_path / "page.html"
    report([tmp_path / "runs", tmp_path / "runs" / "md-0"], out)
    told = capsys.readouterr().out
    assert "md" in told
    assert "waiting" in told
    assert "page.html" in told
    assert "<h1>md on digits</h1>" in out.read_text("utf-8")


@pytest.mark.parametrize(
    ("path", "out", "words"),
    [
        ("nowhere", "a.html", "there is no such folder"),
        ("empty", "a.html", "neither it nor a folder below has a settings.json"),
        ("waiting", "a.html", "no run to report has finished a round yet"),
        ("waiting", "empty", "report must be a file, got the folder"),
    ],
)
def test_the_command_says_in_one_line_what_is_wrong(tmp_path, path, out, words):
    (tmp_path / "empty").mkdir()
    _folder(fake.run(rounds=0, planned=5), tmp_path / "waiting")
    with pytest.raises(RunFolderError, match=words) as told:
        report([tmp_path / path], tmp_path / out)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "a.html").exists()


def test_tables_and_notebooks_work_without_the_packages_of_the_page():
    without = "import sys; sys.modules['jinja2'] = sys.modules['markupsafe'] = None"
    code = f"{without}; import hcsfed.report, hcsfed.report.notebook"
    subprocess.run([sys.executable, "-c", code], check=True)
