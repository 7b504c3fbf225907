"""What the contract of logs does not show: rows on disk, and damage to them."""

from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.storage.environment import Environment
from dafka.storage.forgotten_table import TABLES, ForgottenTable, PartitionEnd


@pytest.fixture
def environment(tmp_path):
    environment = Environment(tmp_path, kind="log", tables=TABLES, layout="1", sync=False)
    yield environment
    environment.close()


def change(environment, table, recalled=(), **forgotten):
    names = {key.encode(): ended for key, ended in forgotten.items()}
    environment.write("change", lambda transaction: table.change(transaction, recalled, names))


def rows(environment, name):
    with environment.reading() as transaction:
        cursor = transaction.cursor(environment.table(name))
        return [(bytes(key), bytes(value)) for key, value in cursor]


def test_both_tables_have_the_same_rows(environment):
    table = ForgottenTable(environment, 3)
    change(environment, table, a=PartitionEnd(1, 10), b=PartitionEnd(2, 20))
    change(
        environment, table, recalled=[b"a", b"never"], c=PartitionEnd(3, 30), d=PartitionEnd(4, 40)
    )
    change(environment, table, a=PartitionEnd(5, 50))
    assert table.count() == 3
    assert table.find([b"a", b"b", b"c", b"d"]) == {
        b"a": PartitionEnd(5, 50),
        b"c": PartitionEnd(3, 30),
        b"d": PartitionEnd(4, 40),
    }
    assert [key for _, key in rows(environment, TABLES[1])] == [b"c", b"d", b"a"]
    assert {key for key, _ in rows(environment, TABLES[0])} == {b"a", b"c", b"d"}


def test_a_damaged_row_is_told(environment):
    table = ForgottenTable(environment, 3)
    change(environment, table, a=PartitionEnd(1, 10))
    ((key, value),) = rows(environment, TABLES[0])

    def damage(transaction):
        transaction.put(key, value[:-5] + b"?" + value[-4:], db=environment.table(TABLES[0]))

    environment.write("damage", damage)
    with pytest.raises(StorageError, match="the row of b'a' is not what was written"):
        table.find([b"a"])
