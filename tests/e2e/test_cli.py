"""The contract for scripts: arguments, JSON, standard streams and exit status of the command line, on the default model."""
import json
import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest


def test_generate_json(penstock, smollm2):
    out = penstock("generate", smollm2, "Name a colour.", "--json", "--temperature", "0", "--max-tokens", "12")
    answer = json.loads(out.stdout)
    assert set(answer) >= {"text", "finish_reason", "prompt_tokens", "tokens", "executor", "timings"}
    assert set(answer["timings"]) == {"load_ms", "ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s"}
    assert answer["finish_reason"] in ("stop", "length")
    assert 0 < len(answer["tokens"]) <= 12 and all(isinstance(t, int) for t in answer["tokens"])
    assert len(answer["prompt_tokens"]) > 5  # the template is in it


def test_generate_reads_standard_input_and_prints_only_the_text(penstock, smollm2):
    given = penstock("generate", smollm2, "Name a colour.", "--temperature", "0", "--max-tokens", "8")
    piped = penstock("generate", smollm2, "--temperature", "0", "--max-tokens", "8", input="Name a colour.")
    assert given.stdout == piped.stdout != ""


def test_same_seed_same_text_and_another_seed_differs(penstock, smollm2):
    def text(seed):
        return penstock("generate", smollm2, "Tell me a story.", "--temperature", "1", "--seed", seed, "--max-tokens", "24").stdout

    assert text("7") == text("7")
    assert text("7") != text("8")


def test_raw_leaves_the_template_out(penstock, smollm2):
    raw = json.loads(penstock("generate", smollm2, "Hello", "--raw", "--json", "--max-tokens", "1").stdout)
    chat = json.loads(penstock("generate", smollm2, "Hello", "--json", "--max-tokens", "1").stdout)
    assert len(raw["prompt_tokens"]) < len(chat["prompt_tokens"])


def test_logits_shape_and_split(penstock, smollm2):
    tokens = "504,3575,282,4649,314"
    whole = json.loads(penstock("logits", smollm2, "--tokens", tokens, "--exact").stdout)
    split = json.loads(penstock("logits", smollm2, "--tokens", tokens, "--exact", "--split", "2").stdout)
    assert whole["shape"] == [5, 49152] == [len(whole["logits"]), len(whole["logits"][0])]
    assert whole == split  # equal bits however the prompt was cut


def test_bench_json(penstock, smollm2):
    result = json.loads(penstock("bench", smollm2, "--prompt", "32", "--gen", "8", "--batch", "2", "--repeat", "1", "--json").stdout)
    for rate in ("prefill_tokens_per_s", "decode_tokens_per_s"):
        assert result[rate]["min"] <= result[rate]["median"] <= result[rate]["max"]
    assert len(result["logits_hash"]) == 16 and result["read_bandwidth_bytes_per_s"] > 0
    assert result["max_batch_width"] == 2


@pytest.mark.parametrize("arguments", [
    [], ["no-such-command"], ["generate"], ["generate", "smollm2", "hi", "--temperature", "minus"], ["generate", "smollm2", "hi", "--max-tokens", "0"],
    ["serve", "smollm2", "--port", "99999"], ["logits", "smollm2"], ["run", "no/such/model/at/all"],
])
def test_bad_usage_is_status_2(penstock, arguments):
    out = penstock(*arguments, check=False)
    assert out.returncode == 2
    assert out.stdout == "" or arguments == []
    assert out.stderr != ""


@pytest.mark.parametrize("seed", ["18446744073709551616", "-9223372036854775809", "1.5", ""])
def test_a_seed_of_more_than_64_bits_is_refused(penstock, smollm2, seed):
    out = penstock("generate", smollm2, "hi", "--max-tokens", "1", "--seed", seed, check=False)
    assert out.returncode == 2 and "seed" in out.stderr and out.stdout == ""


def test_a_split_past_the_tokens_is_refused(penstock, smollm2):
    out = penstock("logits", smollm2, "--tokens", "1,2", "--split", "3", check=False)
    assert out.returncode == 2 and "--split" in out.stderr and out.stdout == ""


@pytest.mark.parametrize("tokens", ["1,,2", "1,", "", "1 2", "1,x", "99999999999"])
def test_what_is_no_list_of_token_ids_is_refused(penstock, smollm2, tokens):
    out = penstock("logits", smollm2, "--tokens", tokens, check=False)
    assert out.returncode == 2 and "--tokens" in out.stderr and out.stdout == ""


def test_an_unknown_command_is_named(penstock):
    assert "no-such-command" in penstock("no-such-command", check=False).stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_a_failure(binary, smollm2):
    with open("/dev/full", "w") as full:
        for arguments in (["version"], ["generate", smollm2, "hi", "--max-tokens", "2"]):
            done = subprocess.run([binary, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
            assert done.returncode == 1 and "standard output" in done.stderr, arguments


def test_failed_work_is_status_1(penstock, tmp_path):
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF" + b"\xff" * 100)
    out = penstock("generate", str(tmp_path / "damaged.gguf"), "hi", check=False)
    assert out.returncode == 1 and "damaged.gguf" in out.stderr and out.stdout == ""


def test_interrupt_is_status_130(binary, smollm2):
    process = subprocess.Popen([binary, "generate", smollm2, "Count to a thousand.", "--max-tokens", "4000", "--ignore-eos"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.read(1)  # the answer has begun
    process.send_signal(2)
    process.stdout.read()
    assert process.wait(30) == 130


def test_run_answers_once(penstock, smollm2):
    assert penstock("run", smollm2, "What is the capital of France?", "--temperature", "0", "--max-tokens", "16").stdout.strip() != ""


def test_run_keeps_the_history_and_clears_it(penstock, smollm2):
    lines = "My name is Ada.\nWhat is my name?\n/clear\n/help\n/nonsense\n/bye\n"
    out = penstock("run", smollm2, "--temperature", "0", "--max-tokens", "40", input=lines).stdout
    assert "Ada" in out and "forgotten" in out and "/clear" in out and "unknown command /nonsense" in out


def test_run_interrupt_stops_the_answer_not_the_program(binary, smollm2):
    process = subprocess.Popen([binary, "run", smollm2, "--max-tokens", "3000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write("Write a very long story about the sea.\n")
    process.stdin.flush()
    process.stdout.read(1)
    process.send_signal(2)
    time.sleep(0.5)
    assert process.poll() is None
    process.stdin.write("/help\n/bye\n")
    process.stdin.flush()
    out, _ = process.communicate(timeout=60)
    assert "forget the conversation" in out and process.returncode == 0


def test_run_interrupt_at_the_prompt_gives_a_fresh_one(binary, smollm2):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(binary, [str(binary), "run", smollm2])
    seen = b""

    def read_until(count):
        nonlocal seen
        while seen.count(b">>> ") < count:
            assert select.select([terminal], [], [], 60)[0], seen
            seen += os.read(terminal, 4096)

    read_until(1)
    for count in (2, 3):  # the second one is no reason to leave either
        os.write(terminal, b"\x03")
        read_until(count)
    os.write(terminal, b"/bye\n")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)


def test_run_that_fails_prints_no_answer(penstock, smollm2):
    out = penstock("run", smollm2, "hi", "--context-length", "20", check=False)
    assert out.returncode == 1 and "20 tokens" in out.stderr and out.stdout == ""


def test_a_model_that_is_not_here_is_said_with_what_to_do(penstock, tmp_path):
    def said(*arguments, **environment):
        out = penstock(*arguments, check=False, environment={"HF_HUB_CACHE": str(tmp_path / "hub"), **environment})
        assert out.returncode != 0 and out.stdout == ""
        return out.stderr

    assert "penstock pull smollm2" in said("show", "smollm2")
    assert "smollm2 to be on this machine" in said("rm", "smollm2")
    for name in ("smollm2", "org/name"):
        message = said("run", name, "hi", HF_HUB_OFFLINE="1")
        assert name in message and "unset it to download" in message and message.count("\n") == 1
    assert "the model comes before the prompt" in said("run", "Why is the sky blue?")


def test_help_names_the_choices(penstock):
    assert "auto, cpu, cuda, mlx" in penstock("run", "--help").stdout


def test_show_list_plan_doctor_version(penstock, smollm2):
    facts = json.loads(penstock("show", smollm2, "--json").stdout)
    assert facts["family"] == "llama" and facts["layers"] == 30 and facts["context_length"] == 8192
    assert any(model["name"] == smollm2 for model in json.loads(penstock("list", "--json").stdout))
    plan = penstock("plan", smollm2).stdout
    assert plan.count("attn_in") == 30 and "head " in plan
    assert re.search(r"^executor +cpu +(avx512\+vnni|avx2|neon\+i8mm|neon\+dotprod|neon|scalar)$", penstock("doctor").stdout, re.MULTILINE)
    for name in re.findall(r"^executor +(\S+)", penstock("doctor").stdout, re.MULTILINE):
        assert name in ("cpu", "cuda", "mlx"), "a name that --executor takes"
    assert penstock("version").stdout.startswith("penstock ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(penstock, shell):
    script = penstock("completion", shell).stdout
    assert "generate" in script and "--max-tokens" in script or "max-tokens" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_help_teaches_with_examples(penstock):
    for command in ("serve", "run", "generate", "logits", "bench", "pull", "list", "show", "rm", "convert", "plan", "doctor", "version", "completion"):
        assert f"penstock {command}" in penstock(command, "--help").stdout.partition("Examples:")[2], command
