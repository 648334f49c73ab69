"""`hcsfed variance`, `hcsfed picture` and how selectors are written in a list."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hcsfed import theory
from hcsfed.assemble import assemble
from hcsfed.cli.main import main
from hcsfed.errors import SettingError
from hcsfed.grid import cells
from hcsfed.report.clusters import plane
from hcsfed.rng import stream
from hcsfed.select import SELECTORS
from hcsfed.settings import Choice, Settings, merge
from hcsfed.simulate import Standing, rounds
from hcsfed.variance import errors, looks, path, theorem
from hcsfed.variants import variant, variants

SMALL = merge(
    Settings(), {"data": "digits", "partition": {"name": "shard", "clients": 20}, "cohort": 5, "local.steps": 5}
)
FLAGS = ["--clients", "20", "--cohort", "5", "--steps", "5", "--partition", "shard"]


@pytest.fixture
def hcsfed(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["hcsfed", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


class TestVariants:
    def test_name_options_and_settings_of_the_run(self):
        one = variant(" hcsfed : features=sketch: clusters=5 :features.size=8 ")
        assert one.label == "hcsfed:features=sketch:clusters=5:features.size=8"
        its = one.over(merge(Settings(), {"rounds": 7}))
        assert its.selector == Choice("hcsfed", {"features": "sketch", "clusters": 5})
        assert (its.features.options, its.rounds) == ({"size": 8}, 7)
        assert one.build(Settings()) == SELECTORS.build("hcsfed", features="sketch", clusters=5)

    def test_what_was_set_for_the_same_selector_stays(self):
        base = merge(Settings(), {"selector": {"name": "hcsfed", "clusters": 3}})
        assert variant("hcsfed:within=uniform").build(base) == SELECTORS.build("hcsfed", clusters=3, within="uniform")
        assert variant("random").over(base).selector == Choice("random")

    def test_lists(self):
        assert [v.label for v in variants("random, hcsfed:clusters=5,random", "compare")] == [
            "random",
            "hcsfed:clusters=5",
        ]
        (one,) = variants("random:data.size=[12, 16]", "compare")
        assert one.others == {"data.size": [12, 16]}
        assert {v.label for v in variants(",".join(SELECTORS), "compare")} == set(SELECTORS)

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("hcsfd", "did you mean 'hcsfed'"),
            ("hcsfed:clusters", "key=value"),
            ("hcsfed:=3", "key=value"),
            ("hcsfed:cluster=3", "did you mean 'clusters'"),
            ("hcsfed:clusters=0", "clusters of hcsfed must be"),
            ("hcsfed:clusters=3:clusters=4", "twice"),
            (" , ", "separated by commas"),
        ],
    )
    def test_what_is_refused(self, text, says):
        with pytest.raises(SettingError, match=says):
            variants(text, "compare")

    def test_cells_of_a_grid_have_names_fit_for_folders(self):
        grid = cells(Settings(), ["random", "hcsfed:features=sketch:local.lr=0.5"], [3, 4])
        assert [cell.name for cell in grid] == [
            "random-s3",
            "random-s4",
            "hcsfed+features=sketch+local.lr=0.5-s3",
            "hcsfed+features=sketch+local.lr=0.5-s4",
        ]
        assert (grid[3].settings.local.lr, grid[3].settings.seed) == (0.5, 4)
        assert grid[0].settings.local.lr == Settings().local.lr


class TestErrors:
    def test_the_path_is_that_of_full_participation(self):
        parts = assemble(replace(SMALL, selector=Choice("full"), rounds=3, cohort=20))
        *_, (_, standing) = rounds(parts, Standing(0, parts.trainer.initial()))
        moments = list(path(parts, [0, 3]))
        assert [m.round for m in moments] == [0, 3]
        assert np.allclose(moments[1].parameters, standing.parameters, atol=1e-6)
        assert moments[0].aggregate is None
        assert moments[0].updates.shape == (20, parts.trainer.dimension)

    def test_random_is_off_by_what_theory_says(self):
        (row,) = errors(SMALL, ["random"], [2], 800)
        parts = assemble(SMALL)
        (moment,) = path(parts, [2])
        y = theory.population(moment.updates, parts.federation.weights)
        exact = theory.random(y, 5) / (y.mean(axis=0) ** 2).sum()
        assert (row.round, row.selector) == (2, "random")
        assert row.error.spread < exact / 10
        assert abs(row.error.total - exact) < 4 * row.error.spread

    def test_every_selector_can_be_asked(self):
        rows = list(errors(SMALL, list(SELECTORS), [0, 1], 3))
        assert [r.selector for r in rows] == [*SELECTORS] * 2
        assert all(np.isfinite([r.error.total, r.error.bias2, r.error.variance]).all() for r in rows)
        assert {r.selector for r in rows if r.error.total < 1e-9} == {"full"}

    def test_one_class_per_client_is_what_clusters_are_for(self):
        settings = merge(SMALL, {"partition.clients": 40, "cohort": 10})
        rows = {r.selector: r.error for r in errors(settings, ["random", "hcsfed"], [0], 100)}
        assert rows["hcsfed"].total < rows["random"].total / 10
        assert not rows["hcsfed"].biased

    def test_bias_is_seen_where_it_is_and_only_there(self):
        names = ["random", "random-shrunk", "power-of-choice", "hcsfed:clusters=3"]
        found = [r.error.biased for r in errors(SMALL, names, [0, 1], 200)]
        assert found == [False, True, True, False] * 2

    def test_clients_that_count_more_are_compared_by_what_they_add(self):
        settings = merge(Settings(), {"data": "synthetic", "partition.clients": 50, "cohort": 10})
        found = {r.selector: r.error for r in errors(settings, ["hcsfed", "hcsfed:weighted=false"], [0], 100)}
        assert found["hcsfed"].total < found["hcsfed:weighted=false"].total / 2
        assert not any(error.biased for error in found.values())
        one, other = errors(SMALL, ["hcsfed", "hcsfed:weighted=false"], [0], 20)
        assert one.error == other.error, "all count the same"

    def test_features_may_have_options_of_their_own(self):
        both = ["hcsfed:features=sketch:features.size=1", "hcsfed:features=sketch:features.size=64"]
        settings = merge(SMALL, {"partition.clients": 40, "cohort": 10})
        narrow, wide = (r.error.total for r in errors(settings, both, [0], 100))
        assert narrow > 2 * wide

    @pytest.mark.parametrize(
        ("selectors", "at", "draws", "says"),
        [
            (["random:local.lr=0.5"], [0], 5, "can't set local.lr"),
            (["random"], [], 5, "at of variance"),
            (["random"], [-1], 5, "at of variance"),
            (["random"], [0], 1, "draws of variance"),
        ],
    )
    def test_what_is_refused(self, selectors, at, draws, says):
        with pytest.raises(SettingError, match=says):
            list(errors(SMALL, selectors, at, draws))

    def test_theorem_1_in_units_of_the_full_update(self):
        ((t, links),) = theorem(SMALL, "raw", 5, [1])
        assert t == 1
        assert [one.design for one in links] == ["random", "cluster", "re-allocated", "hybrid"]
        (row,) = errors(SMALL, ["random"], [1], 800)
        assert abs(links[0].exact - row.error.total) < 4 * row.error.spread


class TestCommand:
    def test_table_folder_and_json_tell_the_same(self, hcsfed, tmp_path):
        words = ["variance", "--selectors", "random-shrunk,hcsfed:clusters=5", "--at", "0,1", "--draws", "20", *FLAGS]
        code, out, err = hcsfed(*words, "--theorem", "raw", "--out", "v")
        assert (code, err) == (0, "")
        assert "hcsfed:clusters=5" in out
        assert "Theorem 1 at round 1" in out
        told = json.loads((tmp_path / "v" / "variance.json").read_text())
        assert [(r["round"], r["selector"], r["unbiased"]) for r in told["rows"]] == [
            (0, "random-shrunk", False),
            (0, "hcsfed:clusters=5", True),
            (1, "random-shrunk", False),
            (1, "hcsfed:clusters=5", True),
        ]
        assert "0.5" in out or "0.6" in out, "the bias² of random-shrunk, (1 − m/N)²"
        assert len(told["theorem_1"]) == 8
        picture = (tmp_path / "v" / "variance.svg").read_text()
        assert "<svg" in picture
        code, out, _ = hcsfed(*words, "--theorem", "raw", "--json")
        assert json.loads(out) == told
        hcsfed(*words, "--out", "again")
        assert (tmp_path / "again" / "variance.svg").read_text().count("<path") == picture.count("<path")

    def test_several_seeds_are_several_federations(self, hcsfed):
        words = ["variance", "--selectors", "random", "--at", "0", "--draws", "5", "--seeds", "3", *FLAGS]
        assert "over 3 seeds" in hcsfed(*words)[1]
        rows = json.loads(hcsfed(*words, "--json")[1])["rows"]
        assert [r["seed"] for r in rows] == [0, 1, 2]
        assert len({r["total"] for r in rows}) == 3

    @pytest.mark.parametrize(
        "words", [["--at", "0,x"], ["--at", ""], ["--seeds", "0"], ["--draws", "1"], ["--selectors", "nobody"]]
    )
    def test_bad_words_are_one_line(self, hcsfed, words):
        code, out, err = hcsfed("variance", "--selectors", "random", *FLAGS, *words)
        assert (code, out, err.count("\n")) == (2, "", 1)


class TestPicture:
    def test_the_plane_holds_what_two_numbers_can(self):
        rng = stream(0, "points")
        x = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 50))
        points, shares = plane(x)
        assert shares.sum() == pytest.approx(1)
        assert shares[0] >= shares[1]
        far = np.linalg.norm(x[:, None] - x, axis=2)
        assert np.allclose(np.linalg.norm(points[:, None] - points, axis=2), far, atol=1e-6)

    @pytest.mark.parametrize("x", [np.ones((1, 3)), np.ones((4, 3)), np.arange(4.0)[:, None]])
    def test_the_plane_of_little(self, x):
        points, shares = plane(x)
        assert points.shape == (len(x), 2)
        assert np.isfinite(points).all()
        assert np.isfinite(shares).all()

    def test_a_selector_looks_and_picks(self):
        look, spatial = looks(SMALL, ["hcsfed:clusters=4", "pivotal"], 1)
        assert len(look.selection.ids) == 5
        assert look.selection.info["labels"].max() == 3
        assert look.view.features.shape[0] == look.updates.shape[0] == 20
        assert "labels" not in spatial.selection.info

    @pytest.mark.parametrize("ending", ["png", "svg"])
    def test_the_command_writes_a_file(self, hcsfed, tmp_path, ending):
        words = ["--clients", "20", "--cohort", "5", "--at", "1", "--out", f"here/c.{ending}"]
        code, _, err = hcsfed("picture", "--selectors", "hcsfed:features=gc,pivotal", *words)
        assert (code, err) == (0, "")
        assert (tmp_path / "here" / f"c.{ending}").stat().st_size > 10_000

    @pytest.mark.parametrize("words", [["--selectors", "random"], ["--out", "c.bmp"]])
    def test_bad_words_are_one_line(self, hcsfed, words):
        code, _, err = hcsfed("picture", *words)
        assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(("script", "tables"), [("presets.py", 4), ("situations.py", 7)])
def test_the_evidence_in_the_docs_is_what_the_benchmark_measured(script, tables):
    root = Path(__file__).parent.parent
    shown = subprocess.run(
        [sys.executable, root / "benchmarks" / script, "show"], capture_output=True, text=True, check=True
    ).stdout
    page = (root / "docs" / "which-selector.md").read_text(encoding="utf-8")
    blocks = [block for block in shown.split("\n\n") if block.startswith("| ")]
    assert len(blocks) == tables
    for block in blocks:
        assert block.strip() in page
