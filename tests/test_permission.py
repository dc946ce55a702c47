"""What may run code or read files: the configuration alone says so, whatever a store holds."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from observant.cli import cli
from observant.errors import InputError
from observant.observer.config import Config, load_config
from observant.observer.loop import Observer
from observant.observer.permission import Permission
from observant.observer.program import describe, take_up_config
from observant.service.collection import Collection
from observant.store import Source, Subscription, open_store


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of our own, where commands are given."""
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configured(folder, text):
    file = folder / "observant.toml"
    file.write_text(text)
    file.chmod(0o600)
    return load_config(str(file), {"store": str(folder / "o.db")}, {})


def command(*arguments):
    return CliRunner(catch_exceptions=False).invoke(cli, arguments, standalone_mode=False)


DISK = '[[sources]]\nname = "disk"\nkind = "command"\nurl = "echo honest"\n'


def hostile_backup(folder, *sources):
    """A backup in which somebody has described sources, and a webhook that posts what they find."""
    place = folder / "hostile.db"
    with open_store(place) as store:
        store.sources.add(sources)
        store.subscriptions.add(Subscription(name="out", channel="https://evil.example/"))
        store.backup(folder / "backup.db")
    return str(folder / "backup.db")


def test_a_restored_backup_runs_no_command_under_the_name_of_one_of_ours(folder):
    config = configured(folder, DISK)
    ran = folder / "ran"
    backup = hostile_backup(folder, Source(name="disk", kind="command", url=f"touch {ran}"))
    answer = command("store", "restore", backup, "--store", config.store, "--config", config.file)
    assert "not visited: disk: a command is run only if" in answer.stderr
    with open_store(config.store) as store:
        visit = asyncio.run(Observer(store, config).check("disk"))
        assert visit.outcome == "failed"
        assert "something else under this name" in visit.comparison.reason
        asyncio.run(Observer(store, config).run(seconds=0.3))
        assert not ran.exists()
        # From the next start on it is what the file says.
        take_up_config(store, config)
        assert store.sources.get("disk").url == "echo honest"
        visit = asyncio.run(Observer(store, config).check("disk"))
        assert visit.comparison.text.strip() == "honest"
    assert not ran.exists()


def test_a_restored_backup_reads_no_file(folder):
    config = configured(folder, 'budget = "10/s"\n')
    private = folder / "private.txt"
    private.write_text("a secret of ours")
    backup = hostile_backup(folder, describe(str(private), kind="file", name="page"))
    told = command(
        "store", "restore", backup, "--store", config.store, "--config", config.file, "--json"
    )
    (disabled,) = json.loads(told.stdout)["disabled"]
    assert (disabled["source"], disabled["kind"]) == ("page", "file")
    with open_store(config.store) as store:
        status = asyncio.run(Observer(store, config).run(seconds=0.5))
        assert status.visits == 0  # it is not even due
        assert store.sources.previous("page").text is None
        collection = Collection(store, config)
        try:
            problems = collection.health().problems
            assert any(p.startswith("1 source is not visited until") for p in problems)
            assert "It is not visited: a file is read only if" in collection.sources.get("page").why
        finally:
            collection.cache.close()
        assert asyncio.run(Observer(store, config).check("page")).outcome == "failed"
        # Allowed by the configuration it is read, with nothing else to do.
        allowing = configured(folder, 'budget = "10/s"\nfiles = ["."]\n')
        asyncio.run(Observer(store, allowing).run(visits=1))
        assert store.sources.previous("page").text == "a secret of ours"


def test_importing_lists_what_is_not_allowed_here(folder):
    config = configured(folder, "")
    document = {"sources": [{"url": "rm -rf nothing", "kind": "command", "name": "it"}]}
    (folder / "mine.json").write_text(json.dumps(document))
    answer = command("settings", "import", "mine.json", "--store", config.store)
    assert "1 added" in answer.stdout
    assert "not visited: it: a command is run only if" in answer.stderr


def test_adding_a_file_needs_the_word_of_the_configuration(folder):
    (folder / "page.html").write_text("a page")
    with pytest.raises(InputError, match="files"):
        command("add", "page.html", "--kind", "file", "--store", "o.db")
    configured(folder, 'files = ["."]\n')
    assert "1 source added" in command("add", "page.html", "--kind", "file").stdout
    with pytest.raises(InputError, match="this very command"):
        command("add", "echo 1", "--kind", "command")


def test_a_folder_is_not_left_by_dots_or_links(folder):
    (folder / "open").mkdir()
    (folder / "private.txt").write_text("a secret of ours")
    (folder / "open" / "link.txt").symlink_to(folder / "private.txt")
    (folder / "open" / "loop").symlink_to(folder / "open" / "loop")
    (folder / "open" / "page.txt").write_text("a page")
    allowed = Permission(configured(folder, 'files = ["open"]\n'))
    base = str(folder / "open")
    for path, refused in (
        (f"{base}/page.txt", False),
        (f"file://{base}/page.txt", False),
        (f"{base}/../open/page.txt", False),
        (f"{base}/../private.txt", True),
        (f"{base}/link.txt", True),
        (f"{base}/loop", True),
        (f"{base}ed/page.txt", True),
        (f"{base}/%2e%2e/private.txt", False),  # a plain path has no escapes: it is within
        (f"file://{base}/%2e%2e/private.txt", True),
        ("", True),
        ("page\0", True),
    ):
        source = Source(name="it", kind="file", url=path)
        assert bool(allowed.refusal(source)) == refused, path


def test_a_link_that_appears_later_is_not_followed(folder):
    config = configured(folder, 'files = ["open"]\n')
    (folder / "open").mkdir()
    page = folder / "open" / "page.txt"
    page.write_text("a page")
    (folder / "private.txt").write_text("a secret of ours")
    with open_store(config.store) as store:
        store.sources.add([describe(str(page), kind="file", name="page")])
        observer = Observer(store, config)
        assert asyncio.run(observer.check("page")).outcome == "first"
        page.unlink()
        page.symlink_to(folder / "private.txt")
        assert asyncio.run(Observer(store, config).check("page")).outcome == "failed"
        assert store.sources.previous("page").text == "a page"


def test_a_configuration_that_others_can_write_allows_nothing(folder):
    config = configured(folder, 'files = ["."]\n' + DISK)
    (folder / "page.txt").write_text("a page")
    page = describe("page.txt", kind="file")
    disk = describe("echo honest", kind="command", name="disk")
    assert [Permission(config).refusal(one) for one in (page, disk)] == ["", ""]
    (folder / "observant.toml").chmod(0o666)
    for one in (page, disk):
        assert "nobody else can write" in Permission(config).refusal(one)


def test_commands_are_not_allowed_by_their_kind():
    with pytest.raises(InputError, match="one by one"):
        Config(kinds=("command",))
    assert (
        Permission(Config(kinds=("unheard",))).refusal(Source(name="a", kind="unheard", url="b"))
        == ""
    )
    assert Permission(Config()).refusal(Source(name="a", kind="unheard", url="b"))


# -- the file is edited ---------------------------------------------------------------------------


def test_an_edit_of_a_source_in_the_file_takes_effect(folder):
    entry = '[[sources]]\nname = "news"\nurl = "https://{host}/"\n'
    config = configured(folder, entry.format(host="a.example"))
    with open_store(config.store) as store:
        assert take_up_config(store, config) == 1
        # What somebody changes elsewhere stands as long as the file says what it said.
        store.sources.update("news", importance=7.0, tags=("mine",))
        assert take_up_config(store, config) == 0
        assert store.sources.get("news").importance == 7.0
        edited = entry.format(host="b.example") + 'tags = ["x"]\nsettings = {importance = 2}\n'
        take_up_config(store, configured(folder, edited))
        found = store.sources.get("news")
        assert (found.url, found.host) == ("https://b.example/", "b.example")
        assert (found.importance, found.tags) == (2.0, ("x",))
        assert found.config == {"importance": 2}


def test_a_source_that_the_file_makes_a_command_becomes_one(folder):
    config = configured(folder, DISK)
    with open_store(config.store) as store:
        store.sources.add([Source(name="disk", url="https://a.example/")])
        take_up_config(store, config)
        assert store.sources.get("disk").kind == "command"
        assert asyncio.run(Observer(store, config).check("disk")).outcome == "first"
