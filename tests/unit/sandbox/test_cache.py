"""The cache of downloaded servers."""

import threading
from pathlib import Path

import pytest

from databus.sandbox.cache import cache_root, cached_folder


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "file").write_text("x")

    first = cached_folder("kafka-1", "recipe", make, tmp_path)
    assert cached_folder("kafka-1", "recipe", make, tmp_path) == first
    assert len(made) == 1
    assert (first / "file").read_text() == "x"
    assert first.name.startswith("kafka-1-")


def test_another_recipe_makes_another_folder(tmp_path: Path) -> None:
    folders = {cached_folder("kafka-1", recipe, lambda _folder: None, tmp_path) for recipe in ("a", "b")}
    assert len(folders) == 2


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        cached_folder("kafka-1", "recipe", fail, tmp_path)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_parallel_runs_make_it_once(tmp_path: Path) -> None:
    made: list[Path] = []
    entered, release = threading.Event(), threading.Event()

    def make(folder: Path) -> None:
        made.append(folder)
        entered.set()
        assert release.wait(20)

    def run() -> None:
        cached_folder("kafka-1", "recipe", make, tmp_path)

    threads = [threading.Thread(target=run) for _ in range(3)]
    threads[0].start()
    assert entered.wait(20)
    for thread in threads[1:]:
        thread.start()
    release.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(made) == 1


def test_the_cache_is_chosen_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("DATABUS_CACHE", raising=False)
    assert cache_root() == tmp_path / "xdg" / "databus"
    monkeypatch.setenv("DATABUS_CACHE", str(tmp_path / "mine"))
    assert cache_root() == tmp_path / "mine"
