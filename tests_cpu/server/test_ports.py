from __future__ import annotations

import socket

import pytest

from eagle3_checks.server.ports import PortTakenError, ReservedPort


def test_a_reserved_port_is_nobody_else_s_until_a_server_listens() -> None:
    with ReservedPort("127.0.0.1") as reserved:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", reserved.port))
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does
            server.bind(("127.0.0.1", reserved.port))
            server.listen()
            with socket.create_connection(("127.0.0.1", reserved.port), timeout=5):
                accepted, _ = server.accept()
                accepted.close()


def test_reserved_ports_differ() -> None:
    with ReservedPort("127.0.0.1") as one, ReservedPort("127.0.0.1") as two:
        assert one.port != two.port


def test_a_port_that_is_listened_on_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PortTakenError, match=r"set server\.port = 0"):
            ReservedPort("127.0.0.1", taken.getsockname()[1])


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(
        PortTakenError, match=r"server\.host is '192\.0\.2\.1', which is no address"
    ):
        ReservedPort("192.0.2.1", 30000)


def test_a_host_that_is_no_address_is_refused() -> None:
    with pytest.raises(PortTakenError, match=r"server\.host is 'a b', .*write 127\.0\.0\.1"):
        ReservedPort("a b")
