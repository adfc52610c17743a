"""`databus outbox install` on PostgreSQL and MySQL: what is made, and that each change of a table is in its log."""

from __future__ import annotations

import itertools
import json
import random
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from databus import Flow, Kafka, Route
from databus.cli.main import app
from databus.connections.airflow_format import to_json
from databus.core.batching import Batching
from databus.core.errors import (
    SequenceTableError,
    SourceAccessError,
    SourceUnavailableError,
)
from databus.core.findings import Level
from databus.ops import outbox as use_case
from databus.ops.ledger.verify import verify
from databus.ops.services import open_services
from databus.sandbox import Sandbox, SandboxOptions
from databus.testing.contract.source import EVERYTHING
from tests.integration.conftest import Started
from tests.integration.installed_shops import Changers, Shop, account, all_changes, changes_of, states
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcessWorld
from tests.integration.sequence_servers import KEYS, rows_of
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "read-a-sequence-table.md"
NAMES = itertools.count(1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A PostgreSQL, and a MySQL that says who holds locks."""
    options = SandboxOptions(sql_options={"mysql": {"performance_schema": "ON"}})
    sandbox = Sandbox(tmp_path_factory.mktemp("install"), ports_from=ports_from(23_900), options=options)
    sandbox.up(["postgres", "mysql"])
    yield sandbox
    sandbox.destroy()


@pytest.fixture(params=["postgres", "mysql"])
def shop(request: pytest.FixtureRequest, servers: Sandbox) -> Iterator[Shop]:
    host, port = servers.address(request.param).split(":")
    made = Shop(request.param, host, int(port), f"installed_{next(NAMES)}")
    yield made
    for each in ("keys_log", "more_log", "more"):
        made.sql(f"DROP TABLE IF EXISTS {made.name}_{each}{' CASCADE' if made.engine == 'postgres' else ''}")
    made.drop()


COLUMNS = {
    "postgres": (
        ("jsonb", """'{"a": [1.10, {"é": null}]}'"""), ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
        ("numeric", "1e30"), ("numeric(38,4)", "1.10"), ("boolean", "true"), ("float8", "0.1"), ("real", "0.5"),
        ("date", "'2026-01-02'"), ("time", "'12:00:01'"), ("interval", "'1 day'"), ("smallint", "-3"),
        ("timestamp", "'2026-01-02 03:04:05.000001'"), ("timestamptz", "'2026-01-02 03:04:05'"),
        ("text", r"""E'é"\\\n\t'"""), ("bigint", "9223372036854775807"),
    ),
    "mysql": (
        ("json", """'{"a": [1.10, {"é": null}]}'"""), ("SET('red','green')", "'green,red'"),
        ("ENUM('small','large')", "'large'"), ("decimal(38,4)", "1.10"), ("boolean", "true"), ("double", "0.1"),
        ("float", "0.5"), ("date", "'2026-01-02'"), ("time", "'-12:00:01'"), ("smallint", "-3"),
        ("datetime(6)", "'2026-01-02 03:04:05.000001'"), ("timestamp(6) NULL", "'2026-01-02 03:04:05.000001'"),
        ("timestamp NULL", "'2026-01-02 03:04:05'"), ("char(5)", "'ab'"), ("longtext", r"""'é"\\\n\t'"""),
        ("bigint unsigned", "18446744073709551615"),
    ),
}  # fmt: skip
"""Types and a value of each."""
ELSEWHERE = {"postgres": "SET TIME ZONE 'Asia/Kolkata'", "mysql": "SET time_zone = '+05:30'"}


class TestInstall:
    def test_an_outbox_is_shown_made_read_and_removed(self, shop: Shop) -> None:
        name = f"{shop.schema}.{shop.name}_more"
        shown = shop.install("", name, execute=False)
        assert states(shown) == {"missing"}
        assert states(shop.remove("", name)) == {"missing"}  # nothing was made
        assert shop.install("", name) == shown
        assert states(again := shop.install("", name)) == {"there"}
        assert not any(step.statements for step in again)

        event = f"INSERT INTO {name} (aggregatetype, aggregateid, type, payload) VALUES ('Order', '{{}}', 'Paid', {{}})"
        source = shop.open(table=name)
        assert [finding.level for finding in source.preflight(None)] == [Level.OK]
        with shop.transaction() as late:
            late.exec_driver_sql(event.format("late", "'{\"a\": 1}'"))
            shop.sql(event.format("early", "NULL"))
            first = source.plan(source.earliest_offset(), Batching(max_rows=1, max_wait=timedelta(milliseconds=50)))
            assert (first is None) == (shop.engine == "mysql")
            late.commit()
        begin = source.earliest_offset()
        rows, want = [], {"early", "late"}
        while {row["aggregateid"] for row in rows} != want:
            plan = source.plan(begin, EVERYTHING)
            rows += rows_of(source, plan)
            begin = plan.range.end
        assert len(rows) == 2
        assert {row["aggregateid"]: row["payload"] and json.loads(row["payload"]) for row in rows} == {
            "early": None, "late": {"a": 1},
        }  # fmt: skip
        assert "txid" not in rows[0]
        source.close()

        assert [(step.state, step.statements) for step in shop.remove("", name)] == [("kept", ())]
        assert states(shop.remove("", name, with_rows=True)) == {"there"}
        assert states(shop.remove("", name)) == {"missing"}

    def test_the_triggers_of_a_table_are_shown_made_and_removed(self, shop: Shop) -> None:
        shown = shop.install(execute=False)
        assert states(shown) == {"missing"}
        assert states(shop.remove()) == {"missing"}
        assert shop.install() == shown
        assert not any(step.statements for step in shop.install())
        source = shop.follow()
        assert [finding.level for finding in source.preflight(None)] == [Level.OK]
        shop.sql(f"UPDATE {shop.captured} SET v = 1 WHERE k = 1")
        removed = shop.remove()
        assert {step.what.partition(" ")[0]: step.state for step in removed if step.state != "there"} == {
            "table": "kept"
        }
        shop.sql(f"UPDATE {shop.captured} SET v = 2 WHERE k = 1")
        assert [change["after"] for change in all_changes(source)] == [{"k": 1, "v": 1}]
        source.close()
        shop.sql(f"DELETE FROM {shop.log}")
        assert {step.state for step in shop.remove() if step.statements} == {"there"}
        assert states(shop.remove()) == {"missing"}

    def test_statements_that_are_shown_can_be_run_by_hand(self, shop: Shop) -> None:
        for ask in (shop.install, shop.remove):
            with shop.transaction() as connection:
                for step in ask(execute=False):
                    for statement in step.statements:
                        connection.exec_driver_sql(statement)
                connection.commit()
            assert not any(step.statements for step in ask(execute=False))

    def test_the_command_prints_the_sql_and_does_it_when_told(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_TO_INSTALL", to_json(shop.connection))
        words = ["outbox", "install", "shop_to_install", "--table", shop.captured]
        shown = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
        assert shown.exit_code == 0, shown.output
        assert "CREATE TABLE" in shown.stdout
        assert "Nothing was done" in shown.stderr
        assert f'changes_of="{shop.captured}"' in shown.stderr
        done = CliRunner().invoke(app, [*words, "--execute"])
        assert "missing, done" in done.stdout
        told = CliRunner().invoke(app, [*words, "-o", "json"])
        assert {step["state"] for step in json.loads(told.stdout)} == {"there"}
        words[1] = "remove"
        assert "DROP TRIGGER" in CliRunner().invoke(app, words).stdout
        gone = CliRunner().invoke(app, [*words, "--with-rows", "--execute", "-o", "json"])
        assert gone.exit_code == 0, gone.output
        assert {step["state"] for step in json.loads(CliRunner().invoke(app, [*words, "-o", "json"]).stdout)} == {
            "missing"
        }

    def test_the_guide_s_commands(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        guide = GUIDE.read_text(encoding="utf-8")
        if shop.engine == "mysql":
            guide = guide.replace("public.", "shop.").replace("postgres_shop", "mysql_shop")
        monkeypatch.setenv(f"AIRFLOW_CONN_{shop.engine.upper()}_SHOP", to_json(shop.connection))
        made = "id int PRIMARY KEY, state varchar(20)"
        shop.sql("DROP TABLE IF EXISTS orders", f"CREATE TABLE orders ({made})")
        commands = re.findall(r"databus (outbox .*?)(?:`| removes|$)", guide, re.MULTILINE)
        installs = [words for words in commands if words.endswith("--execute") and "remove" not in words]
        (remove,) = [words for words in commands if "remove" in words]
        assert len(installs) == 2
        for words in installs:
            done = CliRunner().invoke(app, words.split())
            assert done.exit_code == 0, done.output
        (event,) = re.findall(r"```sql\n(.*?)```", guide, re.DOTALL)
        shop.sql(event, "INSERT INTO orders VALUES (1, 'new')")
        outbox = shop.open(table=f"{shop.schema}.outbox")
        (row,) = rows_of(outbox, outbox.plan(outbox.earliest_offset(), EVERYTHING))
        assert json.loads(row["payload"]) == {"order": 17, "amount": 1.5}
        log = shop.follow(f"{shop.schema}.orders")
        assert [change["after"] for change in all_changes(log)] == [{"id": 1, "state": "new"}]
        for source in (outbox, log):
            source.close()
        for words in (f"{remove} --with-rows", installs[0].replace("install", "remove") + " --with-rows"):
            assert CliRunner().invoke(app, words.split()).exit_code == 0
        shop.sql("DROP TABLE orders")

    def test_odd_names_are_quoted(self, shop: Shop) -> None:
        name, column = "o'r%d \"e`r\\s é", "st'a%(x)s \"t`e\\ é"
        if shop.engine == "mysql":
            with pytest.raises(SequenceTableError, match="has a backtick"):
                shop.install(f"shop.{name}")
            name, column = name.replace("`", ""), column.replace("`", "")
        table = shop.quoted(name)
        mark = '"' if shop.engine == "postgres" else "`"
        field = f"{mark}{column.replace(mark, mark * 2)}{mark}"
        options = {"no_parameters": True}

        def run(*statements: str) -> None:
            with shop.sql_engine.connect().execution_options(isolation_level="AUTOCOMMIT", **options) as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)

        captured = f"{shop.schema}.{name}"
        run(f"CREATE TABLE {table} (id int PRIMARY KEY, {field} varchar(20))")
        try:
            shop.install(captured)
            assert not any(step.statements for step in shop.install(captured))
            run(f"INSERT INTO {table} VALUES (1, 'new')", f"DELETE FROM {table}")
            source = shop.follow(captured)
            row = {"id": 1, column: "new"}
            assert all_changes(source) == [
                {"op": "c", "before": None, "after": row}, {"op": "d", "before": row, "after": None},
            ]  # fmt: skip
            source.close()
            shop.remove(captured, with_rows=True)
            assert states(shop.remove(captured)) == {"missing"}
        finally:
            run(f"DROP TABLE IF EXISTS {shop.quoted(f'{name}_log')}", f"DROP TABLE {table}")

    def test_what_differs_is_named_and_made_anew(self, shop: Shop) -> None:
        shop.install(exclude=("v",))
        found = {step.what: step.state for step in shop.install(execute=False)}
        assert set(found.values()) == {"there", "differs"}
        shop.install()
        assert states(shop.install()) == {"there"}
        if shop.engine == "postgres":
            shop.sql(f"ALTER TABLE {shop.captured} DISABLE TRIGGER {shop.name}_keys_log_rows")
        else:
            shop.sql(f"DROP TRIGGER {shop.name}_keys_log_update")
        assert "does not write each change" in shop.problem().message
        steps = shop.install()
        assert len([step for step in steps if step.state != "there"]) == 1
        assert states(shop.install()) == {"there"}

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("DROP COLUMN {after}", "has no column after"),
            ("ADD COLUMN more int NOT NULL", "has a column more that is not NULL and has no default"),
            ("DROP COLUMN created_at", "has no column created_at"),
        ],
    )
    def test_a_log_of_another_form_is_named(self, shop: Shop, change: str, said: str) -> None:
        shop.install()
        shop.sql(f"ALTER TABLE {shop.log} {change.format(after='after')}")
        for ask in (shop.install, shop.remove) if "more" not in change else (shop.install,):
            with pytest.raises(SequenceTableError, match=said) as caught:
                ask()
            assert "--name" in caught.value.hint

    def test_a_table_that_is_no_outbox_is_not_taken_for_one(self, shop: Shop) -> None:
        for ask in (shop.install, shop.remove):
            with pytest.raises(SequenceTableError, match="is there and is not an outbox") as caught:
                ask("", shop.captured)
            assert "--table" in caught.value.hint
        assert shop.sql(f"SELECT COUNT(*) FROM {shop.captured}") == [(KEYS,)]

    @pytest.mark.parametrize(
        ("create", "said"),
        [
            ("", "there is no table"),
            ("(id int)", "has no primary key"),
            ("(id int PRIMARY KEY, photo {bytes})", "photo of {name}_more has the type"),
        ],
    )
    def test_a_table_that_cannot_be_followed_is_named(self, shop: Shop, create: str, said: str) -> None:
        if create:
            shop.sql(
                f"CREATE TABLE {shop.name}_more {create.format(bytes='bytea' if shop.engine == 'postgres' else 'blob')}"
            )
        captured = f"{shop.schema}.{shop.name}_more"
        with pytest.raises(SequenceTableError, match=said.format(name=f"{shop.schema}.{shop.name}")) as caught:
            shop.install(captured)
        if "photo" in create:
            assert "--exclude photo" in caught.value.hint
            shop.install(captured, exclude=("photo",))
            shop.sql(f"INSERT INTO {captured} VALUES (1, 'x')")
            source = shop.follow(captured, columns=("id",))
            assert [finding.level for finding in source.preflight(None)] == [Level.OK]
            assert [change["after"] for change in all_changes(source)] == [{"id": 1}]
            source.close()

    def test_an_account_without_rights_is_told_which_it_needs(self, shop: Shop) -> None:
        with account(shop) as weak, pytest.raises(SourceAccessError) as caught:
            shop.install(connection=weak)
        assert "The account needs CREATE" in caught.value.hint
        assert "weak-weak" not in str(caught.value)

    def test_a_table_in_use_is_not_waited_for_long(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        waits = {"postgresql": "SET LOCAL lock_timeout = '100ms'", "mysql": "SET SESSION lock_wait_timeout = 1"}
        monkeypatch.setattr(use_case, "_WAIT", waits)
        with shop.transaction() as busy:
            busy.exec_driver_sql(f"UPDATE {shop.captured} SET v = 1 WHERE k = 1")
            with pytest.raises(SourceUnavailableError) as caught:
                shop.install()
            assert "A transaction holds the table" in caught.value.hint
            shop.sql(f"UPDATE {shop.captured} SET v = 1 WHERE k = 2")  # nobody waits behind it
        shop.install()
        assert states(shop.install()) == {"there"}

    def test_a_trigger_of_that_name_that_is_not_ours_is_left_alone(self, shop: Shop) -> None:
        if shop.engine == "postgres":
            shop.sql(
                f"CREATE FUNCTION {shop.name}_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
                f"CREATE TRIGGER {shop.name}_keys_log_rows AFTER INSERT ON {shop.captured} FOR EACH ROW "
                f"EXECUTE FUNCTION {shop.name}_f()",
            )
        else:
            shop.sql(
                f"CREATE TRIGGER {shop.name}_keys_log_insert AFTER INSERT ON {shop.captured} FOR EACH ROW SET @x = 1"
            )
        for ask in (shop.install, shop.remove):
            with pytest.raises(SequenceTableError, match="was not made for") as caught:
                ask()
            assert "--name" in caught.value.hint
        if shop.engine == "postgres":
            shop.sql(f"DROP FUNCTION {shop.name}_f() CASCADE")


class TestChanges:
    def test_each_change_of_each_row_is_read_once_and_in_order(self, shop: Shop) -> None:
        """Each image before a change is the one that the change before it left: none is missed, twice, or late."""
        state = dict(map(tuple, shop.sql(f"SELECT k, v FROM {shop.captured}")))
        shop.install()
        choose, source = random.Random(5), shop.follow()
        place, changes, plans = source.earliest_offset(), [], []
        with Changers(shop, 8, 0.8, seed=5):
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                limit = Batching(max_rows=choose.choice((1, 7, 1000)), max_wait=timedelta(milliseconds=60))
                if plan := source.plan(place, limit):
                    changes += changes_of(source, plan)
                    plans.append((plan, changes[-plan.rows :]))
                    place = plan.range.end
        changes += all_changes(source, place)
        for change in changes:
            before, after = change["before"], change["after"]
            k = (after or before)["k"]
            assert state.pop(k, None) == (before and before["v"])
            if after is not None:
                state[k] = after["v"]
        assert state == dict(map(tuple, shop.sql(f"SELECT k, v FROM {shop.captured}")))
        assert {change["op"] for change in changes} == {"c", "u", "d"}
        assert len(changes) > 50
        source.close()
        again = shop.follow()
        for plan, read in choose.sample(plans, min(5, len(plans))):
            assert changes_of(again, again.reopen(plan.range)) == read
        again.close()

    def test_values_are_those_that_the_table_itself_gives(self, shop: Shop) -> None:
        table, columns = f"{shop.name}_more", COLUMNS[shop.engine]
        own = {
            "postgres": "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT "
            "now()",
            "mysql": "id bigint unsigned AUTO_INCREMENT PRIMARY KEY, created_at datetime(6) NOT NULL DEFAULT "
            "(UTC_TIMESTAMP(6))",
        }[shop.engine]
        kinds = ", ".join(f"c{place} {kind}" for place, (kind, _) in enumerate(columns))
        captured = f"{shop.schema}.{table}"
        shop.sql(f"CREATE TABLE {table} ({own}, {kinds})")
        shop.install(captured)
        assert not any(step.statements for step in shop.install(captured))
        names = ", ".join(f"c{place}" for place in range(len(columns)))
        with shop.sql_engine.connect() as connection:
            plain = connection.execution_options(no_parameters=True)
            plain.exec_driver_sql(ELSEWHERE[shop.engine])
            plain.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({', '.join(value for _, value in columns)})")
            plain.exec_driver_sql(f"INSERT INTO {table} (c0) VALUES (NULL)")
            connection.commit()
        oracle = shop.open(table=captured, lag_window=timedelta(milliseconds=1))
        wanted = rows_of(oracle, oracle.plan(oracle.earliest_offset(), EVERYTHING))
        oracle.close()
        assert len(wanted) == 2
        source = shop.follow(captured)
        plan = source.plan(source.earliest_offset(), EVERYTHING)
        assert [change["after"] for change in changes_of(source, plan)] == wanted
        assert abs(datetime.now(UTC) - plan.watermark) < timedelta(hours=1)  # in UTC, wherever the writer is
        source.close()

    def test_a_column_that_is_added_needs_the_triggers_anew(self, shop: Shop) -> None:
        shop.install()
        shop.sql(f"UPDATE {shop.captured} SET v = 1 WHERE k = 1", f"ALTER TABLE {shop.captured} ADD COLUMN w int")
        shop.sql(f"UPDATE {shop.captured} SET w = 2 WHERE k = 1")
        source = shop.follow()
        if shop.engine == "postgres":
            assert [change["after"] for change in all_changes(source)] == [
                {"k": 1, "v": 1, "w": None}, {"k": 1, "v": 1, "w": 2},
            ]  # fmt: skip
            assert states(shop.install()) == {"there"}
            source.close()
            return
        assert "does not write each change" in source.preflight(None)[0].message
        with pytest.raises(SequenceTableError, match="lacks the column w"):
            source.plan(source.earliest_offset(), EVERYTHING)
        assert states(shop.install()) == {"there", "differs"}
        shop.sql(
            f"UPDATE {shop.log} SET `before` = JSON_SET(`before`, '$.w', NULL), `after` = JSON_SET(`after`, '$.w', 2)"
        )
        shop.sql(f"DELETE FROM {shop.captured} WHERE k = 1")
        assert [change["op"] for change in all_changes(source)] == ["u", "u", "d"]
        source.close()

    def test_a_writer_needs_no_right_on_the_log(self, shop: Shop) -> None:
        shop.install()
        with account(shop) as weak:
            shop.sql(f"GRANT INSERT, UPDATE, DELETE ON {shop.captured} TO {weak.login}")
            url = shop.sql_engine.url.set(username=weak.login, password="weak-weak")
            writer = sa.create_engine(url, poolclass=sa.NullPool)
            with writer.begin() as connection:
                connection.exec_driver_sql(f"UPDATE {shop.captured} SET v = 9 WHERE k = 3")
            with pytest.raises(sa.exc.DBAPIError), writer.begin() as connection:
                connection.exec_driver_sql(f"DELETE FROM {shop.log}")
            writer.dispose()
            source = shop.follow()
            assert [change["after"] for change in all_changes(source)] == [{"k": 3, "v": 9}]
            source.close()

    def test_a_flow_brings_changes_to_kafka_and_its_ledger_adds_up(
        self, started: Started, shop: Shop, tmp_path: Path
    ) -> None:
        world = OneProcessWorld(started("zookeeper", "kafka"), tmp_path)
        world.environment[f"AIRFLOW_CONN_{shop.connection.conn_id.upper()}"] = to_json(shop.connection)
        shop.install()
        flow = Flow(
            name=f"{shop.engine}_{shop.name}",
            source=shop.spec(table=shop.log, changes_of=shop.captured),
            sinks=(Kafka(conn_id="kafka_east", topic=shop.name, partitions=1, replication_factor=1),),
        )
        shop.sql(
            f"INSERT INTO {shop.captured} VALUES (1000, 1)",
            f"UPDATE {shop.captured} SET v = 2 WHERE k = 1000",
            f"UPDATE {shop.captured} SET k = 1001 WHERE k = 1000",
            f"DELETE FROM {shop.captured} WHERE k = 1001",
        )
        world.run(flow)
        records = consume(world.sandbox.address("kafka"), shop.name)
        told = [(json.loads(record.key())["k"], record.value() and json.loads(record.value())) for record in records]
        images = [(key, value and (value["op"], value["before"], value["after"])) for key, value in told]
        new, paid, moved = {"k": 1000, "v": 1}, {"k": 1000, "v": 2}, {"k": 1001, "v": 2}
        assert images == [
            (1000, ("c", None, new)), (1000, ("u", new, paid)), (1000, ("d", paid, None)), (1000, None),
            (1001, ("c", None, moved)), (1001, ("d", moved, None)), (1001, None),
        ]  # fmt: skip
        with open_services(flow, world.connections, world.settings) as services:
            assert [str(problem) for problem in verify(flow, services, None).problems] == []


def test_events_go_to_the_topic_of_their_kind_by_aggregate(started: Started, shop: Shop, tmp_path: Path) -> None:
    world = OneProcessWorld(started("zookeeper", "kafka"), tmp_path)
    world.environment[f"AIRFLOW_CONN_{shop.connection.conn_id.upper()}"] = to_json(shop.connection)
    table = f"{shop.schema}.{shop.name}_more"
    shop.install("", table)
    kinds = (f"Order_{shop.name}", f"Customer_{shop.name}")
    flow = Flow(
        name=f"{shop.engine}_{shop.name}_events",
        source=shop.spec(table=table),
        transforms=(Route(by="aggregatetype", routes=kinds),),
        sinks=(
            Kafka(
                conn_id="kafka_east", topic="outbox.event.{route}", envelope="outbox", event_headers=("type",),
                partitions=3, slots=2, replication_factor=1,
            ),
        ),
    )  # fmt: skip
    event = f"INSERT INTO {table} (aggregatetype, aggregateid, type, payload) VALUES ('{{}}', '{{}}', 'Paid', '{{}}')"
    sent = [(kinds[n % 2], str(n % 5), f'{{"n": {n}}}') for n in range(20)]
    shop.sql(*(event.format(*each) for each in (*sent, (f"Other_{shop.name}", "1", '{"n": 1}'))))
    result = world.run(flow)
    assert (result.rows, result.quarantined) == (len(sent) + 1, 1)
    for kind in kinds:
        found: dict[str, list[int]] = {}
        partitions: dict[str, set[int]] = {}
        for record in consume(world.sandbox.address("kafka"), f"outbox.event.{kind}"):
            aggregate = record.key().decode()
            assert dict(record.headers())["type"] == b"Paid"
            partitions.setdefault(aggregate, set()).add(record.partition())
            found.setdefault(aggregate, []).append(json.loads(record.value())["n"])
        wanted: dict[str, list[int]] = {}
        for each, aggregate, payload in sent:
            if each == kind:
                wanted.setdefault(aggregate, []).append(json.loads(payload)["n"])
        assert found == wanted
        assert {len(each) for each in partitions.values()} == {1}
    with open_services(flow, world.connections, world.settings) as services:
        assert [str(problem) for problem in verify(flow, services, None).problems] == []


class TestPostgres:
    @pytest.mark.parametrize("shop", ["postgres"], indirect=True)
    def test_a_truncate_is_deletes_of_all_rows(self, shop: Shop) -> None:
        shop.install()
        with shop.transaction() as connection:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            with pytest.raises(sa.exc.DBAPIError, match="READ COMMITTED alone sees"):
                connection.exec_driver_sql(f"TRUNCATE {shop.captured}")
        shop.sql(f"TRUNCATE {shop.captured}")
        source = shop.follow()
        changes = all_changes(source)
        assert {change["op"] for change in changes} == {"d"}
        assert sorted(change["before"]["k"] for change in changes) == list(range(KEYS))
        source.close()

    @pytest.mark.parametrize("shop", ["postgres"], indirect=True)
    def test_rows_that_replication_brings_are_logged(self, shop: Shop) -> None:
        shop.install()
        with shop.transaction() as connection:
            connection.exec_driver_sql("SET session_replication_role = replica")
            connection.exec_driver_sql(f"DELETE FROM {shop.captured} WHERE k = 1")
            connection.commit()
        source = shop.follow()
        assert [change["before"] for change in all_changes(source)] == [{"k": 1, "v": 0}]
        source.close()

    @pytest.mark.parametrize("shop", ["postgres"], indirect=True)
    def test_a_partitioned_table_and_a_log_of_another_table_are_refused(self, shop: Shop) -> None:
        shop.sql(f"CREATE TABLE {shop.name}_more (k int PRIMARY KEY) PARTITION BY RANGE (k)")
        with pytest.raises(SequenceTableError, match="is no ordinary table") as caught:
            shop.install(f"public.{shop.name}_more")
        assert "partition" in caught.value.hint
        shop.install()
        shop.sql(f"DROP TABLE {shop.name}_more", f"CREATE TABLE {shop.name}_more (k int PRIMARY KEY)")
        with pytest.raises(SequenceTableError, match=rf"is the log of {shop.name}_keys") as caught:
            shop.install(f"public.{shop.name}_more", shop.log)


class TestMysql:
    @pytest.mark.parametrize("shop", ["mysql"], indirect=True)
    def test_rows_that_a_foreign_key_changes_are_refused(self, shop: Shop) -> None:
        shop.sql(
            f"CREATE TABLE {shop.name}_more (id int PRIMARY KEY, k int, CONSTRAINT {shop.name}_fk FOREIGN KEY (k) "
            f"REFERENCES {shop.name}_keys (k) ON DELETE CASCADE)"
        )
        captured = f"shop.{shop.name}_more"
        with pytest.raises(SequenceTableError, match=f"foreign key {shop.name}_fk") as caught:
            shop.install(captured)
        assert "RESTRICT" in caught.value.hint
        shop.sql(f"ALTER TABLE {captured} DROP FOREIGN KEY {shop.name}_fk")
        shop.install(captured)
        shop.sql(
            f"ALTER TABLE {captured} ADD CONSTRAINT {shop.name}_fk FOREIGN KEY (k) REFERENCES {shop.name}_keys (k) "
            "ON DELETE SET NULL"
        )
        (found,) = shop.follow(captured).preflight(None)
        assert "fires no trigger" in found.message

    @pytest.mark.parametrize("shop", ["mysql"], indirect=True)
    def test_an_engine_without_transactions_is_refused(self, shop: Shop) -> None:
        shop.sql(f"CREATE TABLE {shop.name}_more (id int PRIMARY KEY) ENGINE=MyISAM")
        with pytest.raises(SequenceTableError, match="of engine MyISAM") as caught:
            shop.install(f"shop.{shop.name}_more")
        shop.sql(caught.value.hint)
        assert states(shop.install(f"shop.{shop.name}_more")) == {"missing"}

    @pytest.mark.parametrize("shop", ["mysql"], indirect=True)
    def test_an_account_that_does_not_see_triggers_is_told_so(self, shop: Shop) -> None:
        shop.install()
        with account(shop) as weak:
            shop.sql(
                f"GRANT SELECT ON {shop.log} TO {weak.login}", f"GRANT SELECT ON performance_schema.* TO {weak.login}"
            )
            (found,) = shop.follow(login=weak).preflight(None)
            assert found.level is Level.WARN
            assert "GRANT TRIGGER" in found.hint
            shop.sql(f"GRANT TRIGGER ON {shop.captured} TO {weak.login}")
            assert [each.level for each in shop.follow(login=weak).preflight(None)] == [Level.OK]
