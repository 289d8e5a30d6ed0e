from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.server.redact import MASK, Redactor, is_secret


@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "api-key", "--api-key", "admin_api_key", "HF_TOKEN", "hfToken", "password"),
        *("AWS_SECRET_ACCESS_KEY", "Authorization", "ssl_keyfile_password", "APIKEY"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("max_total_tokens", "tokenizer_path", "skip_tokenizer_init", "completion_tokens", "keys"),
        *("speculative_num_draft_tokens", "tokenizer_worker_num", "monkey", "author", "port"),
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("--api-key s3cr3t-value --port 1", "--api-key *** --port 1"),
        ("--api-key=s3cr3t-value --port 1", "--api-key=*** --port 1"),
        ("['--api-key', 's3cr3t-value', '--port']", "['--api-key', ***, '--port']"),
        (
            "server_args={'api_key': 's3cr3t-value', 'tp': 1}",
            "server_args={'api_key': ***, 'tp': 1}",
        ),
        ('{"admin_api_key": "s3cr3t-value"}', '{"admin_api_key": ***}'),
        (
            "ServerArgs(api_key='s3cr3t-value', dtype='auto')",
            "ServerArgs(api_key=***, dtype='auto')",
        ),
        ("HF_TOKEN=s3cr3t-value python", "HF_TOKEN=*** python"),
        ("Authorization: Bearer s3cr3t-value", "Authorization: Bearer ***"),
        ("token hf_abcdefghijklmnopqrstu refused", "token hf-*** refused"),
        ("key sk-abcdefghijklmnopqrstu refused", "key sk-*** refused"),
        ("https://user:s3cr3t-value@host/x", "https://***@host/x"),
    ],
)
def test_what_looks_like_a_secret_is_masked(before: str, after: str) -> None:
    assert Redactor().text(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "server_args={'api_key': None, 'max_total_tokens': 8192, 'tokenizer_path': '/models/x'}",
        "max_total_num_tokens=8192, chunked_prefill_size=4096, context_len=2048",
        "Prefill batch, #new-token: 3, #cached-token: 0, token usage: 0.00, #queue-req: 0",
        "accept len: 1.50, gen throughput (token/s): 16.28",
        "KV Cache is allocated. dtype: torch.float32, #tokens: 8192, K size: 0.01 GB",
        "GET http://127.0.0.1:30000/health answered 503",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert Redactor().text(text) == text


def test_known_secrets_are_masked_wherever_they_stand() -> None:
    redactor = Redactor.of(
        ("serve", "--api-key", "alpha-one", "--admin-api-key=beta-two", "--port", "30000"),
        {"HF_TOKEN": "gamma-three", "PATH": "/bin", "SHORT_KEY": "abc"},
    )
    assert redactor.secrets == {"alpha-one", "beta-two", "gamma-three"}
    assert redactor.text("x alpha-one y beta-two z gamma-three /bin abc") == (
        f"x {MASK} y {MASK} z {MASK} /bin abc"
    )


def test_commands_keep_their_words() -> None:
    words = ("serve", "--api-key", "alpha-one", "--admin-api-key=beta", "--port", "1", "--api-key")
    assert Redactor().command(words) == (
        *("serve", "--api-key", MASK, f"--admin-api-key={MASK}", "--port", "1", "--api-key"),
    )


def test_data_is_masked_at_any_depth() -> None:
    data = {
        "api_key": "s3cr3t-value",
        "hf_token": None,
        "max_total_tokens": 8192,
        "nested": [{"password": "x", "launch_command": "serve --api-key s3cr3t-value"}],
        "keys": ["left"],
        "token": ["one", 2],
    }
    assert Redactor().data(data) == {
        "api_key": MASK,
        "hf_token": None,
        "max_total_tokens": 8192,
        "nested": [{"password": MASK, "launch_command": f"serve --api-key {MASK}"}],
        "keys": ["left"],
        "token": [MASK, 2],
    }


@given(st.text(alphabet=st.characters(codec="ascii", categories=["L", "N"]), min_size=8))
def test_a_known_secret_never_stays(secret: str) -> None:
    redactor = Redactor(frozenset({secret}))
    text = redactor.text(f"before {secret} after '{secret}' --x={secret}")
    assert secret not in text or secret in MASK


def test_a_file_is_masked_in_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one alpha-one\n\xff two\nalpha-one")
    Redactor(frozenset({"alpha-one"})).file(path)
    assert path.read_bytes() == b"one ***\n\xff two\n***"
    assert list(tmp_path.iterdir()) == [path]
    Redactor(frozenset({"alpha-one"})).file(tmp_path / "absent")
