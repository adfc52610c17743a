"""Logs of triggers where an installation is cut off or lacks a right, or something else changes the table too."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from databus.core.errors import SequenceTableError, SourceAccessError
from databus.core.findings import Level
from databus.sandbox import Sandbox, SandboxOptions
from databus.testing.contract.source import EVERYTHING
from tests.integration.installed_shops import Shop, account, all_changes, changes_of, states
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
NAMES = itertools.count(1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    options = SandboxOptions(sql_options={"mysql": {"performance_schema": "ON"}})
    sandbox = Sandbox(tmp_path_factory.mktemp("logs"), ports_from=ports_from(24_400), options=options)
    sandbox.up(["postgres", "mysql"])
    yield sandbox
    sandbox.destroy()


def shop_on(servers: Sandbox, engine: str) -> Iterator[Shop]:
    host, port = servers.address(engine).split(":")
    made = Shop(engine, host, int(port), f"logged_{next(NAMES)}")
    yield made
    for each in ("keys_log", "more_log", "more"):
        made.sql(f"DROP TABLE IF EXISTS {made.name}_{each}{' CASCADE' if engine == 'postgres' else ''}")
    made.drop()


@pytest.fixture
def postgres(servers: Sandbox) -> Iterator[Shop]:
    yield from shop_on(servers, "postgres")


@pytest.fixture
def mysql(servers: Sandbox) -> Iterator[Shop]:
    yield from shop_on(servers, "mysql")


class TestMysql:
    def test_a_trigger_that_is_refused_leaves_the_one_that_was_there(self, mysql: Shop) -> None:
        mysql.install()
        mysql.sql(f"ALTER TABLE {mysql.captured} ADD COLUMN w int")
        with account(mysql) as weak:
            rights = "SELECT, INSERT, TRIGGER, LOCK TABLES, CREATE, DROP"
            mysql.sql(f"GRANT {rights} ON shop.* TO {weak.login}", "SET GLOBAL log_bin_trust_function_creators = OFF")
            try:
                with pytest.raises(SourceAccessError) as caught:
                    mysql.install(connection=weak)
                assert "log_bin_trust_function_creators = ON" in caught.value.hint
            finally:
                mysql.sql("SET GLOBAL log_bin_trust_function_creators = ON")
        mysql.sql(f"UPDATE {mysql.captured} SET v = 1 WHERE k = 1")
        assert mysql.sql(f"SELECT COUNT(*) FROM {mysql.log}") == [(1,)]
        assert states(mysql.install()) == {"there", "differs"}
        assert states(mysql.install()) == {"there"}
        mysql.sql(f"DELETE FROM {mysql.log}", f"UPDATE {mysql.captured} SET v = 2, w = 3 WHERE k = 1")
        source = mysql.follow()
        assert [each.level for each in source.preflight(None)] == [Level.OK]
        assert [change["after"] for change in all_changes(source)] == [{"k": 1, "v": 2, "w": 3}]
        mysql.sql(f"DELETE FROM {mysql.log}")
        mysql.remove()
        assert states(mysql.remove()) == {"missing"}

    def test_a_second_trigger_is_named_and_dropped(self, mysql: Shop) -> None:
        (create,) = [each for step in mysql.install() for each in step.statements if "AFTER UPDATE" in each]
        mysql.sql(create.replace("_log_update`", "_log_update_2`"))
        assert "write each change" in mysql.problem().message
        assert states(mysql.install()) == {"there", "differs"}
        mysql.sql(f"UPDATE {mysql.captured} SET v = 1 WHERE k = 1")
        assert len(all_changes(mysql.follow())) == 1

    def test_who_may_not_write_to_the_log_makes_no_trigger(self, mysql: Shop) -> None:
        with account(mysql) as weak:
            mysql.sql(f"GRANT SELECT, TRIGGER, LOCK TABLES, CREATE, DROP ON shop.* TO {weak.login}")
            for _ in range(2):
                with pytest.raises(SourceAccessError, match="INSERT command denied") as caught:
                    mysql.install(connection=weak)
                assert "INSERT" in caught.value.hint
                mysql.sql(f"UPDATE {mysql.captured} SET v = v + 1 WHERE k = 1")

    def test_triggers_that_are_gone_are_an_error_whoever_looks(self, mysql: Shop) -> None:
        mysql.install()
        with account(mysql) as weak:
            for table in (mysql.log, "performance_schema.*"):
                mysql.sql(f"GRANT SELECT ON {table} TO {weak.login}")
            assert [each.level for each in mysql.follow(login=weak).preflight(None)] == [Level.WARN]
            mysql.sql(*(f"DROP TRIGGER {mysql.name}_keys_log_{each}" for each in ("insert", "update", "delete")))
            assert {each.level for each in mysql.follow(login=weak).preflight(None)} == {Level.ERROR}


class TestPostgres:
    @pytest.mark.parametrize("when", ["BEFORE", "AFTER"])
    def test_another_trigger_of_each_row_is_refused_until_it_is_named(self, postgres: Shop, when: str) -> None:
        name, table = f"{postgres.name}_a_touch", postgres.captured
        row = "NEW.k = 2" if when == "BEFORE" else "NEW.k = 1"
        postgres.sql(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF pg_trigger_depth() = 1 AND {row} "
            f"THEN UPDATE {table} SET v = v + 100 WHERE k = 1; END IF; RETURN NEW; END$$",
            f"CREATE TRIGGER {name} {when} UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()",
        )
        try:
            with pytest.raises(SequenceTableError, match="in another order") as caught:
                postgres.install()
            assert f"--other-trigger {name}" in caught.value.hint
            postgres.install(other_triggers=(name,))
            assert states(postgres.install(other_triggers=(name,))) == {"there"}
            source = postgres.follow()
            assert [each.level for each in source.preflight(None)] == [Level.OK]
            postgres.sql(f"UPDATE {table} SET v = v + 1 WHERE k IN (1, 2)")
            versions = [change["after"]["v"] for change in all_changes(source) if change["after"]["k"] == 1]
            assert versions != sorted(versions)  # what it is refused for
            postgres.sql(f"CREATE TRIGGER {name}_2 AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()")
            assert f"trigger {name}_2 runs while" in postgres.problem().message
            postgres.sql(f"ALTER TABLE {table} DISABLE TRIGGER {name}_2")
            assert [each.level for each in source.preflight(None)] == [Level.OK]
        finally:
            postgres.sql(f"DROP FUNCTION {name}() CASCADE")

    def test_a_foreign_key_to_the_table_itself_that_changes_rows_is_refused(self, postgres: Shop) -> None:
        key = f"{postgres.name}_up"
        postgres.sql(
            f"ALTER TABLE {postgres.captured} ADD COLUMN up int CONSTRAINT {key} REFERENCES {postgres.captured} "
            "ON UPDATE CASCADE"
        )
        with pytest.raises(SequenceTableError, match=f"foreign key {key}"):
            postgres.install()
        postgres.install(other_triggers=(key,))

    def test_tables_that_inherit_are_refused(self, postgres: Shop) -> None:
        postgres.install()
        postgres.sql(f"CREATE TABLE {postgres.name}_more () INHERITS ({postgres.captured})")
        with pytest.raises(SequenceTableError, match="tables inherit"):
            postgres.install()
        assert "tables inherit" in postgres.problem().message

    def test_a_column_that_was_excluded_is_never_null_by_a_guess(self, postgres: Shop) -> None:
        postgres.install(exclude=("v",))
        assert states(postgres.install(exclude=("v",))) == {"there"}
        postgres.sql(f"UPDATE {postgres.captured} SET v = 1 WHERE k = 1")
        assert "v of" in postgres.problem().message
        without = postgres.follow(columns=("k",))
        assert [each.level for each in without.preflight(None)] == [Level.OK]
        with pytest.raises(SequenceTableError, match="it was excluded"):
            all_changes(postgres.follow())
        postgres.install()
        postgres.sql(f"UPDATE {postgres.captured} SET v = 2 WHERE k = 1", f"ALTER TABLE {postgres.captured} ADD w int")
        source = postgres.follow()
        assert [each.level for each in source.preflight(None)] == [Level.OK]
        with pytest.raises(SequenceTableError, match="lacks the column v"):
            all_changes(source)
        postgres.sql(f"DELETE FROM {postgres.log} WHERE after->>'v' IS NULL")
        assert [change["after"] for change in all_changes(source)] == [{"k": 1, "v": 2, "w": None}]

    def test_a_column_that_is_excluded_under_an_open_flow_stops_it(self, postgres: Shop) -> None:
        postgres.install()
        source = postgres.follow()
        postgres.sql(f"UPDATE {postgres.captured} SET v = 1 WHERE k = 1")
        plan = source.plan(source.earliest_offset(), EVERYTHING)
        assert len(changes_of(source, plan)) == 1
        postgres.install(exclude=("v",))
        postgres.sql(f"UPDATE {postgres.captured} SET v = 2 WHERE k = 1")
        with pytest.raises(SequenceTableError, match="since the flow was opened"):
            source.plan(plan.range.end, EVERYTHING)
        with pytest.raises(SequenceTableError, match="it was excluded"):
            source.plan(plan.range.end, EVERYTHING)

    def test_a_json_column_beside_an_excluded_one_is_refused(self, postgres: Shop) -> None:
        table = f"{postgres.schema}.{postgres.name}_more"
        postgres.sql(f"CREATE TABLE {table} (k int PRIMARY KEY, photo bytea, j json, js json[])")
        with pytest.raises(SequenceTableError, match=r"j of .* is of type json") as caught:
            postgres.install(table, exclude=("photo",))
        assert "--exclude j" in caught.value.hint
        postgres.install(table, exclude=("photo", "j", "js"))
        postgres.sql(f"ALTER TABLE {table} ADD COLUMN late json")
        (found,) = postgres.follow(table, columns=("k",)).preflight(None)
        assert (found.level, "late of" in found.message) == (Level.ERROR, True)

    def test_an_owner_that_may_not_write_to_the_log_makes_no_trigger(self, postgres: Shop) -> None:
        postgres.install()
        postgres.sql(f"INSERT INTO {postgres.log} (op) VALUES ('x')")
        postgres.remove()
        with account(postgres) as weak:
            postgres.sql(
                f"GRANT CREATE, USAGE ON SCHEMA public TO {weak.login}",
                f"ALTER TABLE {postgres.captured} OWNER TO {weak.login}",
            )
            with pytest.raises(
                SequenceTableError, match=f"{weak.login}.* may not insert into {postgres.log}"
            ) as caught:
                postgres.install(connection=weak)
            postgres.sql(*caught.value.hint.partition(". Or")[0].split("; "))
            postgres.sql(f"ALTER TABLE {postgres.log} ENABLE ROW LEVEL SECURITY")
            with pytest.raises(SequenceTableError, match="row security") as caught:
                postgres.install(connection=weak)
            postgres.sql(caught.value.hint.partition(". Or")[0])
            postgres.install(connection=weak)
            postgres.sql(f"UPDATE {postgres.captured} SET v = 1 WHERE k = 1")
            assert states(postgres.install(connection=weak)) == {"there"}
            postgres.sql(f"REVOKE INSERT ON {postgres.log} FROM {weak.login}")
            with pytest.raises(SequenceTableError, match="may not insert into"):
                postgres.install()  # the function keeps its owner
            with pytest.raises(sa.exc.DBAPIError):
                postgres.sql(f"UPDATE {postgres.captured} SET v = 2 WHERE k = 1")

    def test_a_function_of_that_name_that_is_not_ours_is_left_alone(self, postgres: Shop) -> None:
        function = f"{postgres.log}_write()"
        postgres.sql(f"CREATE FUNCTION {function} RETURNS int LANGUAGE sql AS 'SELECT 1'")
        for ask in (postgres.install, postgres.remove):
            with pytest.raises(SequenceTableError, match="was not made for"):
                ask()
        assert postgres.sql(f"SELECT {function}") == [(1,)]
        postgres.sql(f"DROP FUNCTION {function}")
