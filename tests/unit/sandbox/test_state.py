"""The state file."""

from pathlib import Path

import pytest

from databus.core.errors import SandboxError
from databus.sandbox.state import SandboxOptions, SandboxState, StoredProcess, StoredServer, load_state, save_state


@pytest.fixture
def server(tmp_path: Path) -> StoredServer:
    process = StoredProcess(role="server", pid=7, start_ticks=99, boot_id="b", log=tmp_path / "a.log")
    return StoredServer(
        name="mysql",
        host="127.0.0.1",
        ports={"sql": 13306},
        processes=(process,),
        folder=tmp_path / "mysql",
        data_folder=tmp_path / "mysql" / "data",
        credentials=("root",),
    )


def test_nothing_started_is_no_state(tmp_path: Path) -> None:
    assert load_state(tmp_path / "state.json") is None


def test_what_is_saved_comes_back(tmp_path: Path, server: StoredServer) -> None:
    options = SandboxOptions(spark_conf={"spark.a": "b"}, dags_folder=tmp_path)
    state = SandboxState(options=options).with_server(server)
    save_state(tmp_path / "home" / "state.json", state)
    assert load_state(tmp_path / "home" / "state.json") == state


def test_saving_leaves_one_file(tmp_path: Path, server: StoredServer) -> None:
    for state in (SandboxState(), SandboxState().with_server(server)):
        save_state(tmp_path / "state.json", state)
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_states_are_copies(server: StoredServer) -> None:
    empty = SandboxState()
    full = empty.with_server(server)
    assert empty.servers == {}
    assert full.without_server("mysql").servers == {}
    assert full.sandbox_id == empty.sandbox_id


@pytest.mark.parametrize("text", ["{", '{"v": 2}', '{"v": 1, "surprise": true}', '{"v": 1, "servers": {"a": {}}}'])
def test_a_foreign_file_is_refused_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(SandboxError) as caught:
        load_state(path)
    assert caught.value.code == "sandbox_state_invalid"
    assert str(path) in caught.value.message
    assert path.read_text() == text
