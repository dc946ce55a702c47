"""Every published hole of a product of this field is a named test of ours.

`TABLE` says, for each report, what went wrong there and which of our tests would fail if it went
wrong here. Two tests see to it that the named tests exist.
"""

import importlib
import re

import lxml.html
import pytest

from .service_world import World, operations

ACCESS, API = "test_service_access", "test_service_api"
GUARD, TRANSPORT = "test_transport_guard", "test_transport"
CONTENT, STORE, TELLING = "test_comparing_content", "test_store", "test_notifications"
HERE = "test_vulnerabilities"

TABLE = {
    "CVE-2023-24769": (
        "stored XSS through the watched URL",
        [
            (API, "test_only_web_addresses_come_in_whatever_the_disguise"),
            (HERE, "test_what_strangers_say_is_inert_on_every_page"),
        ],
    ),
    "CVE-2024-23329": (
        "one API route missed the token check",
        [(ACCESS, "test_anonymous_is_refused_everywhere")],
    ),
    "CVE-2024-32651": (
        "template injection in notifications",
        [
            (TELLING, "test_a_template_can_name_values_and_nothing_else"),
            (TELLING, "test_a_value_is_never_read_as_a_template"),
        ],
    ),
    "CVE-2024-34061": (
        "templates with a non-html extension were not escaped",
        [(HERE, "test_every_template_is_escaped_whatever_its_name")],
    ),
    "CVE-2024-51483 CVE-2024-51998 CVE-2024-56509": (
        "local file read via prefixes and one-slash forms of file:",
        [
            (API, "test_only_web_addresses_come_in_whatever_the_disguise"),
            (API, "test_kinds_that_read_files_or_run_code_do_not_come_in"),
        ],
    ),
    "CVE-2025-52558": (
        "XSS through error text of a fetched site",
        [(HERE, "test_what_strangers_say_is_inert_on_every_page")],
    ),
    "CVE-2025-62780": (
        "stored XSS through an API update that skipped form validation",
        [
            (API, "test_only_web_addresses_come_in_whatever_the_disguise"),
            (API, "test_what_is_not_in_the_form_is_refused"),
        ],
    ),
    "CVE-2026-25527 CVE-2026-95272 CVE-2026-95273": (
        "path traversal in static and screenshot routes",
        [
            (HERE, "test_no_path_leads_out_of_the_static_files"),
            (API, "test_a_snapshot_is_a_text_to_download_and_only_of_its_source"),
        ],
    ),
    "CVE-2026-27645 CVE-2026-29038": (
        "reflected XSS in error replies of feeds",
        [(ACCESS, "test_errors_give_nothing_hostile_back")],
    ),
    "CVE-2026-27696": (
        "SSRF with full read, unauthenticated by default",
        [
            (GUARD, "test_the_whole_table_directly_by_name_and_by_redirect"),
            (ACCESS, "test_the_first_run_makes_an_owner_once"),
            (ACCESS, "test_anonymous_is_refused_everywhere"),
        ],
    ),
    "GHSA-gwph-fp79-379w": (
        "the filter missed the carrier-grade NAT range",
        [(GUARD, "test_nothing_that_the_standard_library_calls_private_passes")],
    ),
    "GHSA-rph4-96w6-q594": (
        "two URL parsers disagree about a backslash",
        [
            (GUARD, "test_what_only_some_parsers_understand_is_refused"),
            (GUARD, "test_all_parsers_agree_on_what_is_let_through"),
        ],
    ),
    "GHSA-56fq-63vj-9992 CVE-2026-95656 GHSA-hm22-wg2m-35v4": (
        "some ways to the network skipped the gate",
        [
            (GUARD, "test_a_name_that_changes_its_address_between_check_and_connect"),
            (TELLING, "test_a_webhook_goes_nowhere_the_guard_does_not_allow"),
            (TELLING, "test_mail_goes_nowhere_the_guard_does_not_allow"),
            (TELLING, "test_apprise_sends_through_the_guard_and_follows_no_redirect"),
        ],
    ),
    "GHSA-jrxm-qjfh-g54f GHSA-g36r-fm2p-87xm": (
        "stored secrets sent to a newly set host; change by GET",
        [
            (API, "test_stored_secrets_are_never_sent_to_a_newly_set_host"),
            (TELLING, "test_a_secret_does_not_follow_its_channel_to_another_host"),
            (ACCESS, "test_nothing_changes_by_looking"),
        ],
    ),
    "CVE-2026-29039 CVE-2026-35000": (
        "XPath functions read local files",
        [
            (HERE, "test_an_xpath_reads_no_files"),
            (CONTENT, "test_an_xpath_that_would_never_end_is_not_started"),
        ],
    ),
    "CVE-2026-33981": (
        "a filter leaked the environment of the process",
        [(HERE, "test_no_rule_sees_the_environment")],
    ),
    "CVE-2026-41895": (
        "XXE in XML and feeds",
        [
            (CONTENT, "test_xml_without_entities_or_depth"),
            (CONTENT, "test_entities_of_its_own_make_xml_unreadable"),
        ],
    ),
    "CVE-2026-29065 GHSA-8757-69j2-hx56": (
        "zip slip and absolute paths in a restored backup",
        [
            (STORE, "test_a_backup_with_something_strange_is_refused"),
            (STORE, "test_a_bomb_in_a_backup_does_not_go_off"),
            (STORE, "test_a_damaged_or_foreign_backup_is_refused"),
        ],
    ),
    "GHSA-mh42-m7cg-49fr GHSA-h3x5-5j56-hm2j": (
        "file write through an import field; mass assignment",
        [
            (API, "test_what_is_not_in_the_form_is_refused"),
            (API, "test_kinds_that_read_files_or_run_code_do_not_come_in"),
            (API, "test_a_document_with_unknown_fields_is_refused"),
        ],
    ),
    "CVE-2026-35490": (
        "decorator order disabled the login of several routes",
        [
            (
                ACCESS,
                "test_a_route_that_does_not_say_what_it_needs_keeps_the_service_from_starting",
            ),
            (ACCESS, "test_only_these_routes_need_nothing"),
            (ACCESS, "test_anonymous_is_refused_everywhere"),
        ],
    ),
    "GHSA-vwgh-2hvh-4xm5": (
        "a check by substring exposed write routes",
        [
            (ACCESS, "test_only_feeds_take_a_token_from_the_address_and_only_one_that_reads"),
            (HERE, "test_a_path_that_looks_open_is_not"),
        ],
    ),
    "GHSA-3v57-xv5m-v7m7": (
        "no CSRF protection on many routes",
        [
            (ACCESS, "test_a_change_with_a_cookie_needs_the_token_of_its_session"),
            (ACCESS, "test_a_change_from_another_site_is_refused_even_with_the_token"),
        ],
    ),
    "GHSA-cgj8-g98g-4p9x": (
        "a stored page served as HTML from the application's origin",
        [(API, "test_a_snapshot_is_a_text_to_download_and_only_of_its_source")],
    ),
    "GHSA-q8xq-qg4x-wphg GHSA-4j9m-cxq4-9c36": (
        "HTML injection into mails; CSS and DOM injection",
        [
            (TELLING, "test_a_letter_is_plain_text_and_escaped_html"),
            (API, "test_atom_is_valid_and_hostile_titles_are_inert"),
            (HERE, "test_what_strangers_say_is_inert_on_every_page"),
            (HERE, "test_our_scripts_never_write_html"),
        ],
    ),
    "CVE-2026-95270 CVE-2026-95271": (
        "passwords compared in variable time; authentication hook",
        [
            (ACCESS, "test_a_stranger_costs_as_much_time_as_somebody_with_a_wrong_password"),
            (HERE, "test_secrets_are_compared_in_constant_time"),
            (ACCESS, "test_guessing_is_throttled_and_recovers"),
            (
                ACCESS,
                "test_signing_in_makes_a_new_session_and_ends_the_one_that_was_planted",
            ),
        ],
    ),
    "Scrapy CVE-2021-41125 CVE-2022-0577 GHSA-cw9j-q3vf-hrrv": (
        "credentials leak to another origin",
        [
            (TRANSPORT, "test_credentials_and_secret_headers_stay_with_their_origin"),
            ("test_service_client", "test_the_token_is_not_carried_along_a_redirect"),
        ],
    ),
    "Miniflux CVE-2023-27591": (
        "access to metrics trusted forwarded headers",
        [
            (HERE, "test_forwarded_headers_open_no_door"),
            (
                "test_service_client",
                "test_it_serves_below_a_prefix_and_believes_only_named_proxies",
            ),
        ],
    ),
    "Miniflux GO-2025-4226 (open redirect)": (
        "open redirect after signing in",
        [(ACCESS, "test_after_signing_in_one_stays_here")],
    ),
    "Miniflux CVE-2023-27592": (
        "XSS in an error page",
        [(ACCESS, "test_errors_give_nothing_hostile_back")],
    ),
    "changedetection.io (read in code)": (
        "the address is checked and connected to separately; keys compared with !=",
        [
            (GUARD, "test_a_name_that_changes_its_address_between_check_and_connect"),
            (HERE, "test_secrets_are_compared_in_constant_time"),
        ],
    ),
}


@pytest.mark.parametrize("report", TABLE)
def test_each_report_has_tests_that_exist(report):
    _, tests = TABLE[report]
    assert tests
    for module, name in tests:
        found = importlib.import_module(f"{__package__}.{module}")
        assert callable(getattr(found, name, None)), f"{module} has no {name}"


@pytest.fixture(scope="module")
def world():
    made = World().fill()
    yield made
    made.close()


def pages(world):
    with world.browser("owner") as client:
        client.headers["Accept"] = "text/html"
        seen = 0
        for path, method, _, _ in operations(world.app):
            if method != "GET":
                continue
            reply = client.get(path, follow_redirects=True)
            if reply.headers.get("content-type", "").startswith("text/html"):
                seen += 1
                yield path, reply
        assert seen >= 8


def test_what_strangers_say_is_inert_on_every_page(world):
    """Titles, addresses, errors, reasons and diffs are hostile in this world."""
    told = 0
    for path, reply in pages(world):
        root = lxml.html.fromstring(reply.text)
        for script in root.iter("script"):
            assert script.get("src"), path
            assert not (script.text or "").strip(), path
            assert script.get("src").startswith("/static/"), path
        for element in root.iter():
            if not isinstance(element.tag, str):
                continue
            assert element.tag not in {"iframe", "object", "embed", "base", "applet"}, path
            for name, value in element.attrib.items():
                assert not name.lower().startswith("on"), (path, name)
                assert name != "style", path
                if name in {"href", "src", "action", "formaction", "data-chart"}:
                    plain = re.sub(r"[\x00-\x20]", "", value).lower()
                    assert not plain.startswith(("javascript:", "data:text", "vbscript:")), path
        assert not any(img.get("src") == "x" for img in root.iter("img")), path
        told += "alert(1)" in root.text_content()
    assert told >= 3  # it is shown, as text


def test_every_template_is_escaped_whatever_its_name():
    from observant.service.pages import render

    environment = render.environment()
    names = environment.list_templates()
    assert names
    for name in [*names, "x.txt", "x.xml", "x", None]:
        escapes = environment.autoescape
        assert escapes is True or (callable(escapes) and escapes(name)), name
    made = environment.from_string("{{ x }}").render(x="<script>")
    assert made == "&lt;script&gt;"
    for name in names:
        text = environment.loader.get_source(environment, name)[0]
        assert "autoescape false" not in text
        assert not re.search(r"\|\s*safe\b", text), name


def test_no_path_leads_out_of_the_static_files(world):
    with world.client() as client:
        for path in (
            "/static/../app.py",
            "/static/..%2fapp.py",
            "/static/%2e%2e/%2e%2e/app.py",
            "/static//etc/passwd",
            "/static/%2fetc%2fpasswd",
            "/static/..\\app.py",
            "/static/....//app.py",
            "/static/app.css/../../app.py",
        ):
            reply = client.get(path)
            assert reply.status_code in {400, 404}, path
            assert "create_app" not in reply.text
            assert "root:" not in reply.text


def test_a_path_that_looks_open_is_not(world):
    with world.client() as client:
        for path in (
            "/api/v1/sources?x=/health",
            "/api/v1/sources?/static/",
            "/api/v1/sources#/login",
            "/api/v1//sources",
            "/health/../api/v1/sources",
            "/static/../api/v1/sources",
            "/api/v1/sources/",
            "/API/v1/sources",
            "/api/v1/sources%2f",
            "/api/v1/sources;/health",
        ):
            reply = client.get(path, follow_redirects=False)
            assert reply.status_code in {303, 400, 401, 404}, (path, reply.status_code)
            assert "example" not in reply.text


def test_forwarded_headers_open_no_door(world):
    with world.client() as client:
        for header in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Forwarded-User", "X-User"):
            for value in ("127.0.0.1", "owner", "for=127.0.0.1"):
                for path in ("/metrics", "/api/v1/sources"):
                    assert client.get(path, headers={header: value}).status_code == 401


def test_secrets_are_compared_in_constant_time():
    """Whatever compares a secret does so through hmac, and no module compares by ==."""
    from pathlib import Path

    from observant.service import access

    folder = Path(access.__file__).parent
    for file in folder.glob("*.py"):
        text = file.read_text("utf-8")
        suspicious = re.findall(
            r"(?:secret|password|csrf|token|digest)\w*\s*[!=]=\s*\w*(?:secret|password|csrf|token)",
            text,
        )
        assert not suspicious, (file.name, suspicious)
    assert "compare_digest" in (folder / "secrets.py").read_text("utf-8")


def test_our_scripts_never_write_html():
    from importlib.resources import files

    folder = files("observant.service.pages").joinpath("static")
    scripts = [file for file in folder.iterdir() if file.name.endswith(".js")]
    assert scripts
    for file in scripts:
        text = file.read_text("utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (file.name, word)


def compared(body, kind, **rules):
    """What a visit with these rules finds, or the complaint about the rules."""
    from observant.errors import ObservantError
    from observant.observer.content import Comparer, Rules
    from observant.observer.fetched import Fetched

    try:
        comparer = Comparer(Rules(**rules))
    except ObservantError as error:
        return str(error)
    seen = Fetched(url="https://a.example/", status=200, body=body, content_type=kind)
    found = comparer.compare(None, seen)
    return f"{found.text} {found.reason} {found.record}"


def test_an_xpath_reads_no_files(tmp_path):
    place = tmp_path / "file.xml"
    place.write_text("<a>hunter2</a>")
    for function in ("document", "doc", "unparsed-text", "fn:unparsed-text", "collection"):
        told = compared(b"<p>hello</p>", "text/html", xpath=f"{function}('{place}')")
        assert "hunter2" not in told
        assert "hello" not in told  # it selected nothing: there is no such function


def test_no_rule_sees_the_environment(monkeypatch):
    """There is no jq here: of JSON, JMESPath and JSONPath select, and neither has such words."""
    monkeypatch.setenv("TOP_SECRET", "hunter2")
    for rules in (
        {"jmespath": "env"},
        {"jmespath": "env.TOP_SECRET"},
        {"jmespath": "getenv('TOP_SECRET')"},
        {"jmespath": "$ENV"},
        {"jsonpath": "$.env"},
        {"jsonpath": "$ENV"},
        {"jsonpath": "$..TOP_SECRET"},
        {"xpath": "environment-variable('TOP_SECRET')"},
    ):
        assert "hunter2" not in compared(b'{"a": 1}', "application/json", **rules)
