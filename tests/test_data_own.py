"""One's own data: arrays, files, images, PyTorch and Hugging Face, and other people's partitioners."""

import sys
import types

import numpy as np
import pytest

from hcsfed.data import (
    Source,
    flower_partitioner,
    from_arrays,
    from_folder,
    from_huggingface,
    from_npz,
    from_torch,
    load,
)
from hcsfed.errors import DataError, HcsfedError, SettingError

X = np.arange(200, dtype=np.float32).reshape(50, 4)
Y = np.arange(50) % 5


def rows(source: Source) -> set[float]:
    return {float(r) for r in np.concatenate([source.x, source.test_x])[:, 0]}


# Arrays


def test_arrays_keep_every_row_once_and_hold_a_share_out():
    source = from_arrays(X, Y, test=0.3, seed=1)
    assert len(source.test_x) == 15
    assert rows(source) == set(X[:, 0])
    assert np.array_equal(source.y, (source.x[:, 0] / 4).astype(int) % 5)  # rows keep their labels
    assert (source.classes, source.task, source.scale) == (5, "classification", 1.0)
    assert load(source, clients=5).clients == 5


def test_classes_give_their_share_to_the_test_set():
    source = from_arrays(X, np.repeat([0, 1, 2], [30, 15, 5]), test=0.2)
    assert np.bincount(source.test_y).tolist() == [6, 3, 1]


def test_arrays_with_a_test_set_are_taken_as_they_are():
    source = from_arrays(X, Y, X[:3], Y[:3] + 3)
    assert source.x is X
    assert source.classes == 6
    federation = load(source, "iid", 5)
    assert np.array_equal(source.x, np.arange(200, dtype=np.float32).reshape(50, 4))
    assert not np.shares_memory(federation.x, X)


def test_rows_may_name_their_client():
    owners = np.array(["b", "a", "c", "a", "b"] * 10)
    f = load(from_arrays(X, Y, clients=owners, test=0.25))
    assert f.about["partition"]["name"] == "natural"
    assert f.sizes.tolist() == [15, 15, 8]  # 20, 20 and 10 of a, b and c, a quarter of each held out, rounded down
    for k, owner in enumerate("abc"):
        assert {owners[int(r[0] / 4)] for r in f.client(k)[0]} == {owner}


def test_a_client_of_one_row_keeps_it():
    f = load(from_arrays(X, Y, clients=np.minimum(np.arange(50), 1), test=0.5))
    assert f.sizes.tolist() == [1, 25]


def test_float_labels_are_regression():
    source = from_arrays(X, X[:, 0])
    f = load(source, clients=5)
    assert (f.task, f.classes, f.y.shape[1:]) == ("regression", 0, (1,))
    assert f.about["partition"]["name"] == "iid"


def test_bytes_are_scaled_as_images():
    assert from_arrays(np.zeros((10, 1, 4, 4), np.uint8), np.arange(10) % 2).scale == 1 / 255
    assert from_arrays(np.zeros((10, 8), np.uint8), np.zeros((10, 8), int)).scale == 1  # text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X[:9]}, r"same number of rows, 1 or more, got \[9, 4\] and \[50\]"),
        ({"x": X[:0], "y": Y[:0]}, "1 or more, got"),
        ({"test": 0}, r"test of arrays must be a share in \(0, 1\), got 0"),
        ({"test": 0.001}, "at least one test row"),
        ({"test_x": X}, "test_x and test_y of arrays must be given both"),
        ({"x": np.where(np.arange(200).reshape(50, 4) == 29, np.nan, 1.0)}, "x of arrays .* NaN or infinity in row 7$"),
        ({"clients": [1, 2]}, "clients of arrays must name one client for each of 50 rows"),
        ({"seed": "x"}, "seed of arrays must be an int >= 0, got 'x'"),
        ({"task": "ranking"}, "task of arrays must be classification or regression, got 'ranking'"),
        ({"y": Y - 1}, r"y of arrays must be in \[0, 3\]"),
        ({"y": Y, "classes": 3}, r"must be in \[0, 2\] \(3 classes\), got values from 0 to 4"),
        ({"y": Y.astype(str)}, "y of arrays must be ints from 0 on, or floats for regression, got <U21; np.unique"),
    ],
)
def test_broken_arrays_are_refused_in_one_line(arguments, message):
    with pytest.raises(HcsfedError, match=message) as caught:
        load(from_arrays(**{"x": X, "y": Y} | arguments), "iid", 5)
    assert "\n" not in str(caught.value)


# An .npz file


def test_npz_is_read_by_its_path(tmp_path):
    np.savez(tmp_path / "mine.npz", x=X, y=Y, clients=np.arange(50) // 10)
    f = load(tmp_path / "mine.npz", data_options={"test": 0.5})
    assert (f.name, f.clients, f.sizes.tolist()) == ("mine", 5, [5] * 5)
    np.savez(tmp_path / "tested.npz", x=X, y=Y, test_x=X, test_y=Y)
    assert len(load(str(tmp_path / "tested.npz"), "iid", 5).x) == 50


def test_npz_with_pickles_or_other_contents_is_refused(tmp_path):
    np.savez(tmp_path / "pickle.npz", x=np.array([{}, {}], object), y=np.arange(2))
    with pytest.raises(DataError, match=r"must be an \.npz of plain arrays, without pickled objects"):
        from_npz(tmp_path / "pickle.npz")
    np.savez(tmp_path / "other.npz", features=X, y=Y)
    with pytest.raises(DataError, match=r"must hold the arrays x and y, .* got features, y"):
        from_npz(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:200])
    (tmp_path / "empty.npz").write_bytes(b"")
    for broken in ("text", "cut", "empty"):
        with pytest.raises(DataError, match=rf"{broken}\.npz"):
            from_npz(tmp_path / f"{broken}.npz")
    with pytest.raises(SettingError, match=r"unknown option of data '\.npz file': 'sise'"):
        load(tmp_path / "other.npz", data_options={"sise": 3})


# A folder of images


@pytest.fixture
def pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for c, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        for i in range(5):
            pixels = np.full((6, 4, 3), 100 * c + i, np.uint8)
            pixels[..., 2] = 7
            image.fromarray(pixels).save(tmp_path / name / f"{i}.png")
    (tmp_path / "cat/notes.txt").write_text("no image")
    return tmp_path


def test_a_folder_of_images_by_class(pictures):
    f = load(pictures, clients=2, data_options={"test": 0.2})
    assert (f.clients, f.classes, f.x.shape[1:], f.x.dtype) == (2, 2, (3, 6, 4), np.uint8)
    assert f.about["class_names"] == ["cat", "dog"]
    assert (f.x[:, 2] == 7).all()
    assert np.array_equal(f.x[:, 0, 0, 0] // 100, f.y)
    grey = from_folder(pictures, size=3, mode="L")
    assert grey.x.shape[1:] == (1, 3, 3)


def test_folders_of_training_and_test_images(pictures):
    for part in ("train", "test"):
        (pictures / part).mkdir()
    for name in ("cat", "dog"):
        (pictures / "test" / name).mkdir()
        (pictures / name / "0.png").rename(pictures / "test" / name / "0.png")
        (pictures / name).rename(pictures / "train" / name)
    source = from_folder(pictures)
    assert len(source.x) == 8
    assert sorted(source.test_x[:, 0, 0, 0].tolist()) == [0, 100]


def test_broken_folders_are_refused_in_one_line(pictures):
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(pictures / "cat/z.png")
    with pytest.raises(SettingError, match=r"size of folder .* given where images differ in size, got '6x4 and 9x9"):
        from_folder(pictures)
    assert len(from_folder(pictures, size=[5, 5]).x) == 9
    (pictures / "cat/z.png").write_text("no image")
    with pytest.raises(DataError, match=r"z\.png is no readable image"):
        from_folder(pictures)
    (pictures / "bare").mkdir()
    with pytest.raises(DataError, match="must hold a folder of images"):
        from_folder(pictures / "bare")
    for options, message in (({"size": 0}, "size"), ({"mode": "CMYK"}, "mode")):
        with pytest.raises(SettingError, match=f"{message} of folder"):
            from_folder(pictures, **options)


# PyTorch


def test_a_torch_dataset_is_read_row_by_row():
    torch = pytest.importorskip("torch")
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    source = from_torch(dataset, torch.utils.data.Subset(dataset, [1, 2]), clients=Y)
    assert np.array_equal(source.test_x, X[1:3])
    assert load(source).clients == 5

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(zip(X, Y.tolist(), strict=True))

    assert rows(from_torch(Stream())) == set(X[:, 0])


def test_torch_datasets_that_are_no_pairs_are_refused():
    with pytest.raises(DataError, match=r"items of list must be pairs \(x, y\), got int"):
        from_torch([1, 2])
    with pytest.raises(DataError, match="alike in shape"):
        from_torch([(np.zeros(2), 0), (np.zeros(3), 0)])
    with pytest.raises(DataError, match="it is empty"):
        from_torch([])


def test_pictures_come_with_planes_first():
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    source = from_torch([(image.fromarray(pixels), 0)] * 2, [(image.fromarray(pixels), 0)])
    assert source.x.dtype == np.uint8
    assert np.array_equal(source.x[0], pixels.transpose(2, 0, 1))
    grey = from_torch([(image.fromarray(pixels[..., 0]), 0)] * 2, held_out=0.5)
    assert grey.x.shape == (1, 1, 4, 5)


# Hugging Face


class Table:
    """What of a Hugging Face table is used: column names, a length, columns."""

    def __init__(self, **columns):
        self.columns = columns
        self.column_names = list(columns)

    def __len__(self):
        return len(self.columns[self.column_names[0]])

    def __getitem__(self, name):
        return self.columns[name]


def test_a_table_is_read_by_its_columns():
    table = Table(features=X.tolist(), label=Y.tolist(), who=(Y % 2).tolist())
    f = load(from_huggingface(table, client="who", held_out=0.5))
    assert f.clients == 2
    assert f.x.shape[1:] == (4,)
    both = from_huggingface({"train": table, "test": table})
    assert np.array_equal(both.x, X)
    assert np.array_equal(both.test_y, Y)
    wide = from_huggingface(Table(a=[1.0, 2.0], b=[3.0, 4.0], y=[0, 1]), x=["a", "b"], held_out=0.5)
    assert {tuple(r) for r in np.concatenate([wide.x, wide.test_x])} == {(1.0, 3.0), (2.0, 4.0)}


def test_columns_that_are_not_there_are_refused():
    table = Table(pixels=X.tolist(), label=Y.tolist())
    with pytest.raises(DataError, match="x of a table must name one of its columns: pixels, label"):
        from_huggingface(table)
    with pytest.raises(SettingError, match="unknown column 'pixel'; did you mean 'pixels'"):
        from_huggingface(table, x="pixel")
    with pytest.raises(DataError, match="one shape"):
        from_huggingface(Table(x=[[1], [1, 2]], y=[0, 1]))


# Partitioners of flwr-datasets


class EveryThird:
    """Shaped like a partitioner: it is given a dataset, and gives tables back."""

    num_partitions = 3
    dataset = None

    def load_partition(self, k):
        return Table(**{name: np.asarray(self.dataset[name])[k::3] for name in self.dataset.column_names})


def test_a_partitioner_deals_rows(monkeypatch):
    datasets = types.ModuleType("datasets")
    datasets.Dataset = types.SimpleNamespace(from_dict=lambda columns: Table(**columns))
    monkeypatch.setitem(sys.modules, "datasets", datasets)
    p = flower_partitioner(EveryThird(), np.arange(10))
    assert [p.client(k).tolist() for k in range(3)] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    source = from_arrays(X, Y, X, Y)
    assert load(source, flower_partitioner(EveryThird(), source)).sizes.tolist() == [17, 17, 16]

    class Broken(EveryThird):
        def load_partition(self, k):
            raise KeyError("label")

    with pytest.raises(DataError, match="Broken could not deal the rows"):
        flower_partitioner(Broken(), source)

    class Vertical(EveryThird):
        def load_partition(self, k):
            return Table(label=[k])

    with pytest.raises(DataError, match="Vertical deals out columns; a partition needs one that deals out rows"):
        flower_partitioner(Vertical(), source)


def test_partitioners_without_their_package_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="pip install flwr-datasets"):
        flower_partitioner(EveryThird(), Y)


def test_partitioners_of_flwr_datasets():
    theirs = pytest.importorskip("flwr_datasets.partitioner")
    labels = np.arange(600) % 10
    several = [
        theirs.IidPartitioner(num_partitions=6),
        theirs.DirichletPartitioner(num_partitions=6, partition_by="label", alpha=0.5, min_partition_size=1),
        theirs.PathologicalPartitioner(num_partitions=5, partition_by="label", num_classes_per_partition=2),
        theirs.ShardPartitioner(num_partitions=5, partition_by="label", num_shards_per_partition=2),
        theirs.LinearPartitioner(num_partitions=6),
        theirs.SquarePartitioner(num_partitions=6),
        theirs.ExponentialPartitioner(num_partitions=4),
        theirs.SizePartitioner(partition_sizes=[100, 200, 250]),
        theirs.InnerDirichletPartitioner(partition_sizes=[100] * 5, partition_by="label", alpha=0.5),
        theirs.ContinuousPartitioner(num_partitions=5, partition_by="how much", strictness=0.5),
        theirs.NaturalIdPartitioner(partition_by="who"),
        theirs.GroupedNaturalIdPartitioner(partition_by="who", group_size=2),
    ]
    for partitioner in several:
        more = {"who": np.arange(600) % 4, "how much": np.linspace(0, 1, 600)}
        p = flower_partitioner(partitioner, labels, columns=more)
        assert p.clients == partitioner.num_partitions
        assert len(np.unique(p.index)) == len(p.index) <= 600
        theirs_of_0 = np.asarray(partitioner.load_partition(0)["label"][:])
        assert np.array_equal(labels[p.client(0)], theirs_of_0)
    with pytest.raises(DataError, match="VerticalEvenPartitioner deals out columns"):
        flower_partitioner(theirs.VerticalEvenPartitioner(num_partitions=2, active_party_columns="label"), labels)


def test_huggingface_tables_for_real():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"x": X.tolist(), "label": Y.tolist()})
    source = from_huggingface(datasets.DatasetDict({"train": table, "test": table}))
    assert np.array_equal(source.x, X)
    assert np.array_equal(source.y, Y)
