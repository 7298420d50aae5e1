"""Models of a hub, through the real client and a server of our own on 127.0.0.1."""

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from finite_calculus.checkpoints import load
from native_checks.fingerprint import weights_hash
from tests.helpers.hub import Hub, child, command, serve

NAME = "owner/tiny"
# Loads `owner/tiny` at a revision; the last line is the fingerprint, or the refusal.
LOAD = """
import json
from finite_calculus.checkpoints import CheckpointError, load
from native_checks.fingerprint import fingerprint
try:
    print(json.dumps(fingerprint(load({spec!r})[0])))
except CheckpointError as error:
    print(json.dumps({{"refused": str(error)}}))
"""
# The same files without a model: no transformers, so that it takes a moment only.
FETCH = """
import json
from finite_calculus.checkpoints import CheckpointError
from finite_calculus.checkpoints.hub import snapshot
from finite_calculus.checkpoints.spec import HubModel
try:
    here = snapshot(HubModel({name!r}, {revision!r}))
    print(json.dumps({{"commit": here.commit, "folder": str(here.folder)}}))
except CheckpointError as error:
    print(json.dumps({{"refused": str(error)}}))
"""


@pytest.fixture
def hub(folders: dict[str, Path]) -> Iterator[Hub]:
    with serve() as running:
        running.publish(NAME, folders["tiny-qwen2"])
        yield running


def loaded(hub: Hub, home: Path, spec: str = NAME) -> dict[str, str]:
    return child(LOAD.format(spec=spec), hub.endpoint, home)


def fetched(
    hub: Hub, home: Path, *, name: str = NAME, revision: str | None = None, **more: str
) -> dict[str, Any]:
    return child(FETCH.format(name=name, revision=revision), hub.endpoint, home, **more)


def closed_endpoint() -> str:
    """An address where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_model_is_loaded_by_its_id_and_its_branch_is_recorded_as_a_commit(hub, tmp_path) -> None:
    commit = hub.repositories[NAME].branches["main"]
    record = loaded(hub, tmp_path)
    assert record["weights"] == weights_hash(load("tiny-qwen2")[0])
    assert record["source"] == "hub"
    assert record["source_repository"] == NAME
    assert record["source_commit"] == commit
    assert str(tmp_path) not in json.dumps(record)
    # The branch was asked for once; every file came from the commit.
    asked = {
        path.split("/resolve/")[1].split("/")[0]
        for _, path, _ in hub.requests
        if "/resolve/" in path
    }
    assert asked == {commit}


def test_the_revision_that_is_asked_for_is_the_one_that_is_loaded(hub, tmp_path, folders) -> None:
    first = hub.repositories[NAME].branches["main"]
    second = hub.publish(NAME, folders["other"])
    assert first != second
    old, new = loaded(hub, tmp_path, f"{NAME}@{first}"), loaded(hub, tmp_path, f"{NAME}@main")
    assert (old["source_commit"], new["source_commit"]) == (first, second)
    assert old["weights"] == weights_hash(load("tiny-qwen2")[0])
    assert new["weights"] == weights_hash(load(str(folders["other"]))[0]) != old["weights"]


def test_a_broken_download_is_resumed_and_ends_with_the_right_hash(hub, tmp_path, folders) -> None:
    # Half of it is more than the 10 MB that the client writes at a time: less would leave nothing to
    # resume. It is fetched and hashed, not loaded.
    content = bytes(range(256)) * 100_000
    config = (folders["tiny-qwen2"] / "config.json").read_bytes()
    hub.repositories[NAME].commit({"config.json": config, "model.safetensors": content})
    hub.broken_once.add("model.safetensors")
    folder = Path(fetched(hub, tmp_path)["folder"])
    assert (folder / "model.safetensors").read_bytes() == content
    spans = [
        span for verb, path, span in hub.requests if verb == "GET" and path.endswith(".safetensors")
    ]
    assert [span is None for span in spans] == [True, False]
    assert 0 < int(spans[1].removeprefix("bytes=").removesuffix("-")) <= len(content) // 2


def test_served_bytes_that_differ_from_the_advertised_hash_are_refused(
    hub, tmp_path, folders
) -> None:
    right = (folders["tiny-qwen2"] / "model.safetensors").read_bytes()
    hub.replaced["model.safetensors"] = right[:-1] + bytes([right[-1] ^ 1])
    refusal = fetched(hub, tmp_path)["refused"]
    assert "model.safetensors of owner/tiny@" in refusal
    assert "damaged or replaced and is not used. Remove" in refusal


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("online", [True, False])
def test_a_forged_file_in_the_cache_is_refused(hub, tmp_path, file: str, online: bool) -> None:
    folder = Path(fetched(hub, tmp_path)["folder"])
    blob = (folder / file).resolve()
    content = blob.read_bytes()
    blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    if not online:
        hub.endpoint = closed_endpoint()
    refusal = fetched(hub, tmp_path)["refused"]
    assert f"{file} of {NAME}@{folder.name} must have the hash {blob.name}" in refusal
    assert f"Remove {blob} and {folder / file}, and load again" in refusal
    if online:
        blob.unlink()
        (folder / file).unlink()
        assert fetched(hub, tmp_path)["folder"] == str(folder)
        assert blob.read_bytes() == content


def test_weights_put_beside_the_cache_are_refused_online_and_offline(
    hub, tmp_path, folders
) -> None:
    folder = Path(fetched(hub, tmp_path)["folder"])
    (folder / "model.safetensors").unlink()
    shutil.copy(folders["other"] / "model.safetensors", folder)
    assert "must have the hash" in fetched(hub, tmp_path)["refused"]
    hub.endpoint = closed_endpoint()
    assert "has no hash to be verified against" in fetched(hub, tmp_path)["refused"]


@pytest.mark.parametrize("file", ["adapter_config.json", "chat_template.json"])
@pytest.mark.parametrize("online", [True, False])
def test_a_file_that_the_commit_has_not_is_refused(hub, tmp_path, file: str, online: bool) -> None:
    folder = Path(fetched(hub, tmp_path)["folder"])
    (folder / file).write_text("{}")
    if not online:
        hub.endpoint = closed_endpoint()
    refusal = fetched(hub, tmp_path)["refused"]
    # Offline the folder is all that is known of the commit, and an adapter in it is refused first.
    adapter = file == "adapter_config.json" and not online
    assert (
        "holds an adapter" if adapter else f"{file} of {NAME}@{folder.name} has no hash"
    ) in refusal


def test_what_else_another_program_fetched_of_the_commit_is_verified_too(
    hub, tmp_path, folders
) -> None:
    files = {path.name: path.read_bytes() for path in folders["tiny-qwen2"].iterdir()}
    hub.repositories[NAME].commit(files | {"README.md": b"words", "other.bin": b"a pickle"})
    get = f"from huggingface_hub import hf_hub_download as get; get({NAME!r}, 'README.md'); "
    child(get + f"get({NAME!r}, 'other.bin'); print(0)", hub.endpoint, tmp_path)
    folder = Path(fetched(hub, tmp_path)["folder"])
    assert (folder / "other.bin").exists()
    (folder / "README.md").resolve().write_bytes(b"wards")
    assert "README.md of owner/tiny@" in fetched(hub, tmp_path)["refused"]


def test_a_cached_revision_is_served_without_a_network(hub, tmp_path) -> None:
    online = fetched(hub, tmp_path)
    hub.endpoint = closed_endpoint()
    assert fetched(hub, tmp_path) == online
    assert fetched(hub, tmp_path, revision=online["commit"]) == online
    assert (
        "at revision other is not in the local cache"
        in fetched(hub, tmp_path, revision="other")["refused"]
    )


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("nobody listens", "ConnectError: "),
        ("no answer", "ReadTimeout: "),
        ("an error", "HfHubHTTPError: Server error '503"),
        ("told to be offline", "OfflineModeIsEnabled: "),
    ],
)
def test_without_the_hub_its_cache_serves_and_an_empty_cache_is_refused_with_the_way_out(
    hub, tmp_path, trouble: str, reason: str
) -> None:
    online = fetched(hub, tmp_path / "full")
    with socket.socket() as silent:
        more = {"HF_HUB_OFFLINE": "1"} if trouble == "told to be offline" else {}
        if trouble == "nobody listens":
            hub.endpoint = closed_endpoint()
        elif trouble == "an error":
            hub.in_trouble = True
        elif trouble == "no answer":
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            hub.endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
            more = {"HF_HUB_ETAG_TIMEOUT": "1"}
        assert fetched(hub, tmp_path / "full", **more) == online
        refusal = fetched(hub, tmp_path / "empty", **more)["refused"]
    assert f"the hub could not be reached ({reason}" in refusal
    assert "point HF_HOME to it. Without either, use `embedded`" in refusal


def test_a_known_name_of_the_hub_is_refused_with_its_pinned_revision(hub, tmp_path) -> None:
    hub.endpoint = closed_endpoint()
    refusal = loaded(hub, tmp_path, "qwen2.5-0.5b-instruct")["refused"]
    assert "at revision 7ae557604adf67be50417f59c2c2f167def9a775 is not in the local" in refusal


def test_what_the_hub_has_not_is_refused_by_name(hub, tmp_path) -> None:
    unknown = fetched(hub, tmp_path, name="owner/nonesuch")["refused"]
    assert "The hub has no model owner/nonesuch, or it is private. Check the spelling" in unknown
    revision = fetched(hub, tmp_path, revision="v9")["refused"]
    assert "has no revision 'v9' on the hub. Give a branch" in revision


def test_a_gated_repository_is_refused_with_the_way_in(hub, tmp_path) -> None:
    hub.gated.add(NAME)
    refusal = fetched(hub, tmp_path)["refused"]
    assert "is gated: its owners grant access. Ask for it" in refusal
    assert "hf auth login" in refusal
    # As on the real hub, the files are listed to everybody.
    assert any("/revision/main" in path for _, path, _ in hub.requests)


def test_a_download_that_never_ends_well_is_refused(hub, tmp_path) -> None:
    hub.replaced["model.safetensors"] = b"short"
    refusal = fetched(hub, tmp_path)["refused"]
    assert "model.safetensors of owner/tiny@" in refusal
    assert "could not be downloaded (OSError" in refusal


def test_only_the_parts_that_an_index_names_are_fetched(hub, tmp_path, folders) -> None:
    model, _ = load("tiny-qwen2")
    parted = tmp_path / "parted"
    model.save_pretrained(parted, max_shard_size="100KB")
    parts = sorted(path.name for path in parted.glob("*.safetensors"))
    assert len(parts) > 1
    (parted / "consolidated.safetensors").write_bytes(b"not asked for")
    (parted / "pytorch_model.bin").write_bytes(b"a pickle")
    hub.publish("owner/parted", parted)
    record = loaded(hub, tmp_path, "owner/parted")
    assert record["weights"] == weights_hash(model)
    asked = {path.rsplit("/", 1)[1] for verb, path, _ in hub.requests if verb == "GET"}
    assert asked >= {*parts, "model.safetensors.index.json"}
    assert not asked & {"consolidated.safetensors", "pytorch_model.bin"}
    (parted / parts[0]).unlink()
    hub.publish("owner/parted", parted)
    refusal = fetched(hub, tmp_path, name="owner/parted")["refused"]
    assert f"lacks {parts[0]}, a part that its index names" in refusal


def test_the_architecture_of_a_hub_model_needs_its_configuration_only(hub, tmp_path) -> None:
    program = (
        "import json; from finite_calculus.checkpoints import architecture as a; "
        f"shape = a({NAME!r}); print(json.dumps([shape.layers, shape.heads, shape.context]))"
    )
    assert child(program, hub.endpoint, tmp_path) == [3, 4, 512]
    files = {path.rsplit("/", 1)[1] for _, path, _ in hub.requests if "/resolve/" in path}
    assert files == {"config.json"}


def test_score_and_preflight_take_a_hub_id_and_print_its_commit(hub, tmp_path) -> None:
    commit = hub.repositories[NAME].branches["main"]
    options = ["--prompt", "Entity 01: A\nEntity 02: B\n", "--answer", "A", "--versus", "B"]
    target = tmp_path / "score.json"
    place = {"endpoint": hub.endpoint, "home": tmp_path / "home"}
    done = command("score", "--model", f"{NAME}@main", *options, "--json", str(target), **place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{NAME}@{commit}, " in done.stdout
    record = json.loads(target.read_text())["fingerprint"]
    assert record["source_commit"] == commit
    assert record["weights"] == weights_hash(load("tiny-qwen2")[0])
    done = command("preflight", NAME, "--only-target", "--quiet", **place)
    assert (done.returncode, done.stdout.strip()) == (0, f"gate open: {NAME}@{commit}"), done.stderr
    done = command("preflight", "owner/nonesuch", "--only-target", **place)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "The hub has no model owner/nonesuch" in done.stderr
