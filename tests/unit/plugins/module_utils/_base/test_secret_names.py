"""What is a secret by its name, for every writer."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import secret_names
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import MASK


@pytest.mark.parametrize(
    "name",
    [
        *("token", "MY_TOKEN", "hub_token", "dbPassword", "db-password", "a.b.secret_key", "AWS_SECRET_ACCESS_KEY"),
        *("api_key", "apiKey", "OPENAI_API_KEY", "credentials", "client.secret", "PGPASSWD", "x[0].passphrase"),
    ],
)
def test_names_of_secrets(name):
    assert secret_names.is_secret_name(name) is (name != "PGPASSWD")


@pytest.mark.parametrize(
    "name",
    [
        *("max_tokens", "train_tokens_per_second", "pad_token", "eos_token", "TOKENIZERS_PARALLELISM", "key", ""),
        *("secretName", "secretKeyRef", "token_file", "keyboard", "passwords_file", "fine_tuning_count_tokens"),
    ],
)
def test_names_of_other_things(name):
    assert not secret_names.is_secret_name(name)


@pytest.mark.parametrize(
    ("name", "secret"), [("SECRET_VALUE_1", True), ("TOKEN_OF_HUB", True), ("TOKENIZERS_PARALLELISM", False)]
)
def test_the_word_may_be_anywhere_in_the_name_of_an_environment_variable(name, secret):
    assert secret_names.is_secret_name(name, anywhere=True) is secret


@pytest.mark.parametrize("value", ["", "true", "512", "None", 12, None, True, ["x"], {"a": 1}])
def test_a_value_that_says_nothing_is_no_secret(value):
    assert not secret_names.is_secret_entry("token", value)


def test_entries_are_found_and_masked_at_any_depth():
    value = {"a": [{"my_token": "hunter22", "n": 1}], "password": {"x": "y"}, "b": "z"}
    assert list(secret_names.secret_entries(value, "s")) == [("s.a[0].my_token", "hunter22")]
    assert secret_names.mask_secret_entries(value) == {
        "a": [{"my_token": MASK, "n": 1}],
        "password": {"x": "y"},
        "b": "z",
    }


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("login with token=abcd1234 failed", f"login with token={MASK} failed"),
        ("dbPassword: 'hunter22', retry", f"dbPassword: '{MASK}', retry"),
        ('{"api_key":"hunter22"}', f'{{"api_key":"{MASK}"}}'),
        (r'{"msg":"with {\"password\": \"hunter22\"}"}', rf'{{"msg":"with {{\"password\": \"{MASK}\"}}"}}'),
        (r'"{\\\"password\\\":\\\"hunter22\\\"}"', rf'"{{\\\"password\\\":\\\"{MASK}\\\"}}"'),
        (r"password=C:\hunter22\x", f"password={MASK}"),
        ("https://x/?a=b&access_token=abcd1234&c=d", f"https://x/?a=b&access_token={MASK}&c=d"),
        ("https://x/?token=abcd1234", f"https://x/?token={MASK}"),
        ("url=https://x/?a=b?token=abcd1234 x", f"url=https://x/?a=b?token={MASK} x"),
        ("args: --user=jo,password=hunter22", f"args: --user=jo,password={MASK}"),
        ("token=password=hunter22", f"token={MASK}"),
        ("MY_SECRET=hunter22;next", f"MY_SECRET={MASK};next"),
        ("tokens_per_second: 12345678, token=true", "tokens_per_second: 12345678, token=true"),
        ('secret "name" not found', 'secret "name" not found'),
    ],
)
def test_assignments_in_a_text_are_masked(text, masked):
    assert secret_names.mask_assignments(text) == masked


NAMES = sorted([*secret_names._SECRET_WORDS, *map("_".join, secret_names._SECRET_PAIRS)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["{}={}", "MY_{}: {}", '{{"{}" : "{}"}}', "a.{}_={}", r"\"{}\": \"{}\""])
def test_every_name_of_a_secret_is_masked_where_it_is_assigned(name, form):
    for spelled in (name, name.upper()):
        assert "hunter22" not in secret_names.mask_assignments(form.format(spelled, "hunter22"))


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        ("vllm serve --api-key=canary42 --port=80", "vllm serve --api-key=<secret> --port=80"),
        ("vllm serve --api-key canary42 -x", "vllm serve --api-key <secret> -x"),
        ("run --hub-token 'canary42'", "run --hub-token '<secret>'"),
        (["serve", "--api-key", "canary42", "--tp", "8"], ["serve", "--api-key", "<secret>", "--tp", "8"]),
        (["serve", "--api-key=canary42"], ["serve", "--api-key=<secret>"]),
    ],
)
def test_values_of_options_that_are_secrets_by_their_names_are_masked(command: object, masked: object) -> None:
    assert secret_names.mask_command_options(command) == masked


@pytest.mark.parametrize(
    "command",
    [
        "serve --api-key=$API_KEY --hub-token $(HUB_TOKEN) --max-tokens=1000 --eos-token=abcdef --token {{ token }}",
        ["serve", "--api-key", "$(API_KEY)", "--api-key", "--verbose", "--max-tokens", "10000", 7],
        "serve --pad-token abcdef --tokenizer=abcdef --api-key=<secret>",
        None,
        7,
    ],
)
def test_references_and_other_options_stay(command: object) -> None:
    assert secret_names.mask_command_options(command) == command
