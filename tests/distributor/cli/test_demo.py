"""`distributor demo` when it cannot begin; the whole job is in tests/processes."""

from __future__ import annotations


def test_a_taken_port_ends_it_with_the_log_to_look_at(run, tmp_path, free_ports):
    import socket

    first = free_ports(8)
    file = tmp_path / "taken.yaml"
    file.write_text(
        "version: 1\nname: taken\nclusters:\n"
        f"  - {{name: c1, id: 1, towers: ['tcp://127.0.0.1:{first}'], "
        f"stores: [{{query: 'tcp://127.0.0.1:{first + 2}', data: '{tmp_path / 'c1'}'}}]}}\n"
        "tree: c1\n"
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 2))
        taken.listen()
        code, _, err = run("demo", file, "--rows", "1", "--logs", tmp_path / "logs")
    assert code == 1
    assert "c1-store-1 has ended with exit code 2" in err
    log = (tmp_path / "logs" / "c1-store-1.log").read_text()
    assert "cannot open query port" in log


def test_rows_must_be_some(run, four):
    assert run("demo", four, "--rows", "0")[0] == 2
