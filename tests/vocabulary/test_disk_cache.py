"""What is kept on disk is exactly what was found out, or it is not there."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callmemaybe.errors import VocabularyError
from callmemaybe.vocabulary import Vocabulary, disk_cache
from callmemaybe.vocabulary.disk_cache import CacheEntry
from callmemaybe.vocabulary.readers import tokenizer_json
from tests.vocabulary.samples import TEXT, train
from tests.vocabulary.test_vocabulary import sentencepiece

OFTEN = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which a test keeps its files."""
    monkeypatch.setenv(disk_cache.ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """Return a small tokenizer.json."""
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "tokenizer.json"
    path.write_text(train(300, spaces=False), encoding="utf-8")
    return path


def some(number: int = 0) -> CacheEntry:
    return CacheEntry({"number": number}, {"a": np.full(2000, number, np.int32), "b": np.zeros(0)})


def files(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
arrays = st.dictionaries(
    st.text(max_size=5),
    st.builds(
        lambda raw, kind: np.frombuffer(raw[: len(raw) // 8 * 8], kind),
        st.binary(max_size=100),
        st.sampled_from(["u1", "i4", "i8", "u8"]),
    ),
    max_size=4,
)


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3), arrays)
@OFTEN
def test_what_is_kept_comes_back(facts: dict[str, Any], held: dict[str, Any]) -> None:
    """Facts and arrays come back equal, of the same types, aligned, and nobody can write to them."""
    disk_cache.save("key", CacheEntry(facts, held))
    found = disk_cache.load("key")
    assert found is not None
    assert found.facts == facts
    assert found.arrays.keys() == held.keys()
    for name, array in found.arrays.items():
        assert array.dtype == held[name].dtype
        assert array.tobytes() == held[name].tobytes()
        assert array.flags.aligned
        assert not array.flags.writeable
    assert disk_cache.load("other") is None


@given(data=st.data())
@OFTEN
def test_damage_is_noticed(
    place: Path, data: st.DataObject, caplog: pytest.LogCaptureFixture
) -> None:
    """A file with any byte changed, cut off or made longer is not used, and the log says why."""
    caplog.set_level(logging.INFO, disk_cache.__name__)
    caplog.clear()
    disk_cache.save("key", some())
    path = place / "key.arrays"
    whole = path.read_bytes()
    at = data.draw(st.integers(0, 200) | st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "append", "fill"]))
    if kind == "flip":
        changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    elif kind == "cut":
        changed = whole[:at]
    elif kind == "append":
        changed = whole + bytes(at + 1)
    else:
        changed = os.urandom(at)
    path.write_bytes(changed)
    assert disk_cache.load("key") is None
    assert str(path) in caplog.text
    disk_cache.save("key", some(1))
    found = disk_cache.load("key")
    assert found is not None
    assert found.facts == {"number": 1}


def test_a_file_under_another_name_is_not_used(place: Path) -> None:
    """A file tells for which key it was written."""
    disk_cache.save("key", some())
    (place / "key.arrays").rename(place / "other.arrays")
    assert disk_cache.load("other") is None


WRITER = """
import sys, numpy as np
from callmemaybe.vocabulary import disk_cache
seen = 0
for n in range(40):
    size = 1000 * (1 + (n + int(sys.argv[1])) % 7)
    disk_cache.save("key", disk_cache.CacheEntry({"size": size}, {"a": np.full(size, size, np.int64)}))
    found = disk_cache.load("key")
    if found is not None:
        seen += 1
        a = found.arrays["a"]
        assert len(a) == found.facts["size"] == a.min() == a.max(), found.facts
assert seen == 40, seen
"""


def test_many_write_and_read_at_once(place: Path) -> None:
    """Processes that write and read the same file at the same time only ever see whole ones."""
    started = [subprocess.Popen([sys.executable, "-c", WRITER, str(n)]) for n in range(4)]
    assert [process.wait(60) for process in started] == [0] * 4
    assert files(place) == ["key.arrays"]
    assert disk_cache.load("key") is not None


READER = """
import sys
from callmemaybe.vocabulary import Vocabulary
print(Vocabulary.from_file(sys.argv[1]).fingerprint)
"""


def test_many_begin_at_once(place: Path, tokenizer: Path) -> None:
    """Processes that all find nothing kept agree on the vocabulary, and leave one file."""
    command = [sys.executable, "-c", READER, str(tokenizer)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    told = {process.communicate(timeout=60)[0] for process in started}
    assert told == {f"{Vocabulary.from_file(tokenizer).fingerprint}\n".encode()}
    assert len(files(place)) == 1


def test_readers_keep_what_is_replaced(place: Path) -> None:
    """Arrays stay as they were when the file is replaced or removed."""
    disk_cache.save("key", some(1))
    found = disk_cache.load("key")
    assert found is not None
    disk_cache.save("key", some(2))
    (place / "key.arrays").unlink()
    assert set(found.arrays["a"].tolist()) == {1}


FULL = """
import resource, sys
from callmemaybe.vocabulary import Vocabulary
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
print(Vocabulary.from_file(sys.argv[1]).fingerprint)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_full_disk_is_no_error(place: Path, tokenizer: Path) -> None:
    """Where a file cannot be written to its end the vocabulary is there all the same, and no file."""
    command = [sys.executable, "-c", FULL, str(tokenizer)]
    told = subprocess.run(command, capture_output=True, check=True, text=True)
    assert not told.stderr
    assert files(place) == []
    assert told.stdout.strip() == Vocabulary.from_file(tokenizer).fingerprint


@pytest.mark.parametrize("where", ["file", "file/below", "/dev/null/below"])
def test_a_folder_that_cannot_be_is_no_error(
    where: str, tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is a file, or cannot be made, only costs the work again."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path / where)
    assert Vocabulary.from_file(tokenizer).encode(b"the cat")
    assert disk_cache.load("key") is None


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_no_error(place: Path, tokenizer: Path) -> None:
    """In a folder without the right to write what lies there is used, and nothing is added."""
    place.mkdir()
    place.chmod(0o500)
    assert Vocabulary.from_file(tokenizer).encode(b"the cat")
    assert files(place) == []


def test_a_writer_that_dies_leaves_nothing_for_long(place: Path) -> None:
    """What a killed writer leaves is never read, and goes when somebody writes an hour later."""
    code = (
        "import os, signal; from callmemaybe.vocabulary import disk_cache; import numpy as np\n"
        "disk_cache.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "disk_cache.save('key', disk_cache.CacheEntry({}, {'a': np.zeros(9)}))\n"
    )
    died = subprocess.run([sys.executable, "-c", code], check=False)
    assert died.returncode == -signal.SIGKILL
    (left,) = place.iterdir()
    assert left.suffix == ".part"
    assert disk_cache.load("key") is None
    disk_cache.save("key", some())
    assert left.exists()
    old = time.time() - disk_cache.STALE_SECONDS - 1
    os.utime(left, (old, old))
    disk_cache.save("other", some())
    assert files(place) == ["key.arrays", "other.arrays"]


def test_the_files_used_last_stay(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more files than allowed are kept, those that were read or written last; no others go."""
    monkeypatch.setattr(disk_cache, "MAX_FILES", 3)
    place.mkdir()
    (place / "somebody's").write_text("")
    for age, key in enumerate(["oldest", "read", "young"]):
        disk_cache.save(key, some())
        then = time.time() - 1000 + age
        os.utime(place / f"{key}.arrays", (then, then))
    assert disk_cache.load("oldest") is not None
    disk_cache.save("new", some())
    assert files(place) == ["new.arrays", "oldest.arrays", "somebody's", "young.arrays"]


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable names it, or says that there is none; else it is where the platform has it."""
    assert disk_cache.folder() == tmp_path / "cache"
    monkeypatch.setenv(disk_cache.ENVIRONMENT_VARIABLE, "")
    assert disk_cache.folder() is None
    disk_cache.save("key", some())
    assert disk_cache.load("key") is None
    monkeypatch.delenv(disk_cache.ENVIRONMENT_VARIABLE)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert disk_cache.folder() == tmp_path / "xdg" / "callmemaybe"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert disk_cache.folder() == tmp_path / ".cache" / "callmemaybe"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert disk_cache.folder() == tmp_path / "Library" / "Caches" / "callmemaybe"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert disk_cache.folder() == tmp_path / "local" / "callmemaybe"


def test_nobody_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home keeps nothing."""

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv(disk_cache.ENVIRONMENT_VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(Path, "home", homeless)
    assert disk_cache.folder() is None


# -- vocabularies ---------------------------------------------------------------------------------

SAMPLES = {
    "own": train(300, spaces=False),
    "added words": train(420),
    "sentencepiece": sentencepiece(True).to_str(),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_second_time_is_as_the_first(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept gives the same vocabulary, tree and ids, and the file is not read again."""
    file = tmp_path / "tokenizer.json"
    file.write_text(SAMPLES[name], encoding="utf-8")
    first = Vocabulary.from_file(file, ends=[0])
    monkeypatch.setattr(tokenizer_json, "_parse", None)
    again = Vocabulary.from_file(file, ends=[0])
    assert again.fingerprint == first.fingerprint
    assert again.tokens == first.tokens
    count = len(first.trie.order)
    texts = [first.tokens[index] for index in first.trie.order]
    assert again.trie.texts(0, count) == first.trie.texts(0, count) == texts
    assert again.trie.texts(3, 9) == texts[3:9]
    for one, other in zip(first.trie.arrays().values(), again.trie.arrays().values(), strict=True):
        assert np.array_equal(one, other)
    for text in TEXT:
        assert again.encode(text.encode()) == first.encode(text.encode())


@pytest.mark.parametrize("name", SAMPLES)
def test_without_a_folder_it_is_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeping changes nothing but the time."""
    file = tmp_path / "tokenizer.json"
    file.write_text(SAMPLES[name], encoding="utf-8")
    first = Vocabulary.from_file(file)
    monkeypatch.setenv(disk_cache.ENVIRONMENT_VARIABLE, "")
    assert Vocabulary.from_file(file).fingerprint == first.fingerprint


def test_damage_costs_only_the_work(place: Path, tokenizer: Path) -> None:
    """A damaged file is replaced by a whole one, and the vocabulary is right all the time."""
    fingerprint = Vocabulary.from_file(tokenizer).fingerprint
    (path,) = place.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert Vocabulary.from_file(tokenizer).fingerprint == fingerprint
    assert path.read_bytes() == whole


def test_anything_else_is_kept_apart(
    place: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another content, configuration, width, end, or version of this code is another key."""
    plain = tokenizer.read_text(encoding="utf-8")
    made = [Vocabulary.from_file(tokenizer)]
    made.append(Vocabulary.from_file(tokenizer, size=999))
    made.append(Vocabulary.from_file(tokenizer, ends=[1]))
    made.append(Vocabulary.from_file(tokenizer, ends=[]))
    for name, text in {
        "config.json": '{"vocab_size": 700}',
        "generation_config.json": '{"eos_token_id": [2]}',
        "tokenizer_config.json": '{"eos_token": "<a>"}',
    }.items():
        (tokenizer.parent / name).write_text(text)
        made.append(Vocabulary.from_file(tokenizer))
    tokenizer.write_text(plain + " ", encoding="utf-8")
    made.append(Vocabulary.from_file(tokenizer))
    assert len(files(place)) == len(made)
    assert [words.size for words in made[:2]] == [made[0].size, 999]
    assert [set(words.ends) for words in made[2:4]] == [{1}, set()]
    assert made[4].size == made[5].size == 700
    assert made[5].ends == {2}
    monkeypatch.setattr(tokenizer_json, "FORMAT", 0)
    made.append(Vocabulary.from_file(tokenizer))
    assert len(files(place)) == len(made)


def test_what_is_refused_is_not_kept(place: Path, tmp_path: Path) -> None:
    """A file that is no usable tokenizer is refused every time, and leaves nothing behind."""
    file = tmp_path / "tokenizer.json"
    file.write_text('{"model": {"vocab": {"a": 0}, "merges": 3, "byte_fallback": true}}')
    for _ in range(2):
        with pytest.raises(VocabularyError, match="refuses"):
            Vocabulary.from_file(file)
    assert not place.exists()


def test_another_outcome_needs_another_format() -> None:
    """What is kept of one tokenizer is written down here: if it changes, FORMAT must be raised."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    pieces = ["a", "b", "c", "\u0120", "ab", "\u0120ab", "abc", "<x>"]
    data = {
        "added_tokens": [{"id": 7, "content": "<x>", "special": True}],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {
            "vocab": {piece: index for index, piece in enumerate(pieces)},
            "merges": [["a", "b"], ["\u0120", "ab"], ["ab", "c"]],
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.json"
        file.write_text(json.dumps(data))
        Vocabulary.from_file(file)
    (path,) = Path(os.environ[disk_cache.ENVIRONMENT_VARIABLE]).iterdir()
    found = disk_cache.load(path.stem)
    assert found is not None
    told = repr((found.facts, {name: array.tolist() for name, array in found.arrays.items()}))
    digest = hashlib.sha256(told.encode()).hexdigest()
    assert (tokenizer_json.FORMAT, digest[:16]) == (3, "e2619621761e53e0")
