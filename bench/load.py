#!/usr/bin/env python3
"""A server under load: each subcommand starts one, drives it over loopback, prints one line and ends with status 1 where its goal is missed.

  load.py streams  --penstock build/penstock                     1,000 streams at once, an event for each token: processor time of the server for each
  load.py soak     --penstock build/penstock                     10,000 mixed requests: growth of resident memory after the first thousand
  load.py overload --penstock build/penstock [--model MODEL]     ten times the load that the server takes: an answer or a refusal for all, the same throughput
  load.py cancels  --penstock build/penstock --model MODEL       50 cancelled requests a second: what they leave behind
"""
import argparse
import asyncio
import collections
import contextlib
import json
import random
import sys
import time

import load_client as client
from process import processor_seconds

WORD = "word"
MB = 1 << 20


# --- streams ---


class StreamsSeen:
    def __init__(self):
        self.tokens = self.events = self.begun = self.ended = self.broken = 0


class TokenStream(asyncio.Protocol):
    """One stream: counts the tokens and the events with text that arrive."""

    def __init__(self, request, seen, done):
        self.request, self.seen, self.done = request, seen, done
        self.tail, self.begun, self.whole = b"", False, False

    def connection_made(self, transport):
        transport.write(self.request)

    def data_received(self, data):
        data = self.tail + data
        cut = data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
        whole, self.tail = data[:cut], data[cut:]
        tokens = whole.count(WORD.encode())
        self.seen.tokens += tokens
        self.seen.events += whole.count(b'"content":"' + WORD.encode())
        if tokens and not self.begun:
            self.begun = True
            self.seen.begun += 1
        self.whole = self.whole or b"data: [DONE]" in whole

    def connection_lost(self, exc):
        self.seen.ended += 1
        self.seen.broken += not self.whole
        if not self.done.done():
            self.done.set_result(None)


async def until(condition, longest_s=client.LONGEST_S):
    deadline = time.monotonic() + longest_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


async def run_streams(options, server):
    loop, seen, ends = asyncio.get_running_loop(), StreamsSeen(), []
    for _ in range(options.streams):
        ends.append(loop.create_future())
        await loop.create_connection(lambda end=ends[-1]: TokenStream(client.chat(stream=True), seen, end), "127.0.0.1", server.port)
    all_tokens = options.streams * options.tokens
    begun = await until(lambda: seen.begun == options.streams or seen.ended)
    start, used, own, first = time.monotonic(), processor_seconds(server.pid), time.process_time(), (seen.tokens, seen.events)
    await until(lambda: seen.tokens >= all_tokens * 0.95 or seen.ended == options.streams)
    seconds, used, own = time.monotonic() - start, processor_seconds(server.pid) - used, time.process_time() - own
    tokens, events = seen.tokens - first[0], seen.events - first[1]
    await asyncio.wait(ends, timeout=client.LONGEST_S)
    report = {"streams": options.streams, "tokens": seen.tokens, "measured_tokens": tokens, "us_per_token": 1e6 * used / max(tokens, 1), "events_per_token": events / max(tokens, 1),
              "tokens_per_s": tokens / seconds, "server_share": used / seconds, "client_share": own / seconds, "resident_mb": server.resident() / MB}
    missed = []
    if not begun or seen.broken or seen.tokens != all_tokens:
        missed.append(f"{seen.broken} streams were cut off, {seen.tokens} of {all_tokens} tokens came")
    if report["us_per_token"] > options.most_us:
        missed.append(f"a token takes {report['us_per_token']:.1f} us of the server's processor time, {options.most_us:g} are the goal")
    if report["events_per_token"] < options.least_events:
        missed.append(f"{report['events_per_token']:.3f} events for each token: some shared one")
    line = (f"{options.streams} streams, {tokens} tokens: {report['us_per_token']:.1f} us of server processor time each, {report['events_per_token']:.3f} events each, "
            f"{report['tokens_per_s']:.0f} tokens/s, server {100 * report['server_share']:.0f} % and client {100 * report['client_share']:.0f} % of a core")
    return report, line, missed


def streams(options):
    script = {"max_num_seqs": options.streams, "max_queue": options.streams, "gather": options.streams, "tick_ms": options.every_ms,
              "replies": [{"pieces": [WORD], "repeat": options.tokens, "delays_ms": options.every_ms}]}
    arguments = ["--max-connections", options.streams + 16, *options.serve_args.split()]
    with client.Server(options.penstock, script, arguments) as server:
        return asyncio.run(run_streams(options, server))


# --- soak ---

SOAK_SCRIPT = {"context_length": 65536, "max_num_seqs": 32, "max_queue": 1024, "replies": [
    {"match": "leave", "pieces": ["word "], "repeat": 2000, "delays_ms": 5},
    {"match": "much", "pieces": ["word "], "repeat": 1000},
    {"pieces": ["word "], "repeat": 20}]}
BAD = [
    client.packet("POST", "/v1/chat/completions", b'{"messages": ['), client.packet("POST", "/v1/chat/completions", {"messages": []}),
    client.chat(model="nobody"), client.chat(temperature=9), client.packet("GET", "/v1/nothing"), client.packet("POST", "/v1/completions", {"prompt": "x" * 100000}),
]


async def soak_whole(port, number):
    answer = await client.ask(port, client.chat(f"request {number}", max_tokens=20))
    return answer.status == 200 and answer.whole and answer.json["usage"]["completion_tokens"] > 0


async def soak_streamed(port, number):
    answer = await client.ask(port, client.chat(f"request {number}", max_tokens=20, stream=True, n=1 + number % 2))
    return answer.status == 200 and answer.whole


async def soak_cancelled(port, number):
    how = ("reset", "close", "half-close")[number % 3]
    await client.leave(port, client.chat(f"leave {number}", max_tokens=2000, stream=True), how, after_bytes=random.Random(number).randrange(1, 6000))
    return True


async def soak_bad(port, number):
    answer = await client.ask(port, BAD[number % len(BAD)])
    return 400 <= answer.status < 500 and "error" in answer.json


async def soak_long(port, number):
    answer = await client.ask(port, client.chat(f"much {number} " + WORD * 5000, max_tokens=1000, stream=number % 2 == 0))
    return answer.status == 200 and answer.whole


SOAK_KINDS = {"whole": (soak_whole, 35), "streamed": (soak_streamed, 35), "cancelled": (soak_cancelled, 15), "bad": (soak_bad, 10), "long": (soak_long, 5)}


async def send_mixed(port, numbers, at_once, counts, wrong):
    kinds = [kind for kind, (_, share) in SOAK_KINDS.items() for _ in range(share)]
    numbers = iter(numbers)

    async def work():
        for number in numbers:
            kind = random.Random(number).choice(kinds)
            counts[kind] += 1
            try:
                right = await SOAK_KINDS[kind][0](port, number)
            except (OSError, TimeoutError, asyncio.TimeoutError, ValueError, KeyError) as error:
                right = repr(error)
            if right is not True:
                wrong.append(f"{kind} {number}: {right or 'not as it should be'}")

    await asyncio.gather(*(work() for _ in range(at_once)))


async def run_soak(options, server):
    counts, wrong, start = collections.Counter(), [], time.monotonic()
    first = min(options.first, options.requests)
    await send_mixed(server.port, range(first), options.at_once, counts, wrong)
    idle = await client.wait_idle(server.port)
    before = server.resident()
    await send_mixed(server.port, range(first, options.requests), options.at_once, counts, wrong)
    idle = await client.wait_idle(server.port) and idle
    after, seconds = server.resident(), time.monotonic() - start
    growth = after / before - 1
    report = {"requests": options.requests, "kinds": counts, "wrong": len(wrong), "resident_first_mb": before / MB, "resident_end_mb": after / MB, "growth": growth,
              "requests_per_s": options.requests / seconds}
    missed = wrong[:5]
    if not idle:
        missed.append("something still runs at the end")
    if growth > options.most_growth:
        missed.append(f"resident memory grew by {100 * growth:.2f} %, {100 * options.most_growth:g} % are the goal")
    line = (f"{options.requests} requests ({', '.join(f'{n} {kind}' for kind, n in counts.items())}), {len(wrong)} wrong: resident {before / MB:.1f} MB after the first {first}, "
            f"{after / MB:.1f} MB at the end ({100 * growth:+.2f} %), {report['requests_per_s']:.0f} requests/s")
    return report, line, missed


def soak(options):
    what = options.model or SOAK_SCRIPT
    with client.Server(options.penstock, what, options.serve_args.split()) as server:
        return asyncio.run(run_soak(options, server))


# --- overload ---


class Answers:
    def __init__(self):
        self.answered = self.refused = self.lost = self.tokens = 0
        self.why = collections.Counter()

    async def one(self, port, request):
        try:
            answer = await client.ask(port, request)
        except (OSError, TimeoutError, asyncio.TimeoutError) as error:
            self.lost += 1
            self.why[type(error).__name__] += 1
            return
        if answer.status == 200 and answer.whole:
            self.answered += 1
            self.tokens += answer.json["usage"]["completion_tokens"]
        elif answer.status in (429, 503) and answer.headers.get("retry-after", "").isdigit():
            self.refused += 1
        else:
            self.lost += 1
            self.why[f"status {answer.status}"] += 1


async def closed_loop(port, request, clients, seconds):
    """As many clients as make a queue that is never empty and never full. Tokens and answers a second."""
    answers, start = Answers(), time.monotonic()

    async def work():
        while time.monotonic() < start + seconds:
            await answers.one(port, request())

    await asyncio.gather(*(work() for _ in range(clients)))
    return answers, time.monotonic() - start


async def open_loop(port, request, per_s, seconds, most_at_once):
    """Requests at a rate, whatever becomes of them; those above `most_at_once` wait for a connection."""
    answers, running, start, sent = Answers(), set(), time.monotonic(), 0
    while time.monotonic() < start + seconds:
        due = int((time.monotonic() - start) * per_s) - sent
        while due > 0 and len(running) < most_at_once:
            task = asyncio.create_task(answers.one(port, request()))
            running.add(task)
            task.add_done_callback(running.discard)
            sent, due = sent + 1, due - 1
        await asyncio.sleep(0.005)
    sending_s, tokens = time.monotonic() - start, answers.tokens
    if running:
        await asyncio.wait(running, timeout=client.LONGEST_S)
    return answers, sending_s, tokens, sent


async def watch_memory(server, seen):
    while True:
        seen.append(server.resident())
        await asyncio.sleep(0.1)


class Used:
    """Cores that server and client keep busy from here on."""

    def __init__(self, server):
        self.server, self.start, self.theirs, self.own = server, time.monotonic(), processor_seconds(server.pid), time.process_time()

    def since(self):
        seconds = time.monotonic() - self.start
        return {"server_cores": (processor_seconds(self.server.pid) - self.theirs) / seconds, "client_cores": (time.process_time() - self.own) / seconds}


async def run_overload(options, server):
    turn, memory = iter(range(1 << 60)), []
    watch = asyncio.create_task(watch_memory(server, memory))

    def request():
        return client.chat(f"{next(turn)}: {WORD} " * options.prompt_words, max_tokens=options.tokens, ignore_eos=True)

    await closed_loop(server.port, request, 2, 0.5)  # touches the weights
    used = Used(server)
    calm, calm_s = await closed_loop(server.port, request, options.clients, options.calm_seconds or options.seconds)
    calm_memory, calm_used = max(memory), used.since()
    per_s = options.times * calm.answered / calm_s
    used = Used(server)
    storm, storm_s, storm_tokens, sent = await open_loop(server.port, request, per_s, options.seconds, options.at_once)
    storm_used, most = used.since(), max(memory)
    idle = await client.wait_idle(server.port)
    again, again_s = await closed_loop(server.port, request, options.clients, options.calm_seconds or options.seconds)
    calm_rate = (calm.tokens + again.tokens) / (calm_s + again_s)  # before and after: a machine drifts
    guard = (await client.ask(server.port, client.packet("GET", "/v1/status"))).json["memory"]["guard"]
    idle = await client.wait_idle(server.port) and idle
    watch.cancel()
    share = storm_tokens / storm_s / max(calm_rate, 1e-9)
    report = {"calm_tokens_per_s": calm_rate, "calm_before_after": [calm.tokens / calm_s, again.tokens / again_s], "overload_tokens_per_s": storm_tokens / storm_s, "share": share, "sent": sent, "sent_per_s": sent / storm_s, "answered": storm.answered,
              "refused": storm.refused, "lost": storm.lost + calm.lost + again.lost, "why": storm.why, "calm": calm_used, "overload": storm_used, "resident_calm_mb": calm_memory / MB, "resident_most_mb": most / MB, "limit_mb": guard["limit_bytes"] / MB, "refused_for_memory": guard["refused"]}
    missed = []
    if report["lost"] or storm.answered + storm.refused != sent:
        missed.append(f"{sent - storm.answered - storm.refused} of {sent} requests got neither an answer nor a refusal: {dict(storm.why)}")
    if share < options.least_share:
        missed.append(f"the throughput fell to {100 * share:.0f} %, {100 * options.least_share:g} % are the goal")
    if most > guard["limit_bytes"]:
        missed.append(f"resident memory came to {most / MB:.0f} MB, the guard's limit is {guard['limit_bytes'] / MB:.0f}")
    if sent / storm_s < 0.8 * per_s:
        missed.append(f"the client sent {sent / storm_s:.0f} requests a second, {per_s:.0f} were wanted")
    if not idle:
        missed.append("something still runs at the end")
    line = (f"{sent / storm_s:.0f} requests/s for {options.seconds:g} s, {options.times:g} times what it takes: {storm.answered} answered, {storm.refused} refused, {report['lost']} lost; "
            f"{report['overload_tokens_per_s']:.0f} tokens/s, {calm_rate:.0f} without ({100 * share:.0f} %); resident at most {most / MB:.0f} MB of {guard['limit_bytes'] / MB:.0f}, {calm_memory / MB:.0f} without; "
            f"server {storm_used['server_cores']:.2f} and client {storm_used['client_cores']:.2f} cores, {calm_used['server_cores']:.2f} and {calm_used['client_cores']:.2f} without")
    return report, line, missed


def overload(options):
    script = {"max_num_seqs": 8, "max_queue": 64, "replies": [{"pieces": ["word "], "repeat": options.tokens, "delays_ms": 5}]}
    arguments = ["--max-num-seqs", 8, "--max-queue", 64, "--max-connections", options.at_once + 64, *options.serve_args.split()]
    with client.Server(options.penstock, options.model or script, arguments) as server:
        return asyncio.run(run_overload(options, server))


# --- cancels ---


async def run_cancels(options, server):
    luck, tasks, start, sent, counts = random.Random(options.seed), [], time.monotonic(), 0, collections.Counter()

    async def one(number):
        own = random.Random(options.seed * 1000003 + number)
        prompt = " ".join(own.choice(("river", "stone", "light", "sky", "mill")) for _ in range(own.randrange(4, options.prompt_words)))
        fields = {"max_tokens": 256, "ignore_eos": True, "stream": own.random() < 0.7, "n": 1 + (own.random() < 0.2)}
        try:
            data = await client.leave(server.port, client.chat(prompt, **fields), own.choice(("reset", "close", "half-close")), after_s=own.uniform(0.001, options.longest_s))
            counts["refused" if data.startswith(b"HTTP/1.1 429") else "running" if b"data: {" in data else "unanswered"] += 1
        except OSError as error:
            counts[type(error).__name__] += 1

    while time.monotonic() < start + options.seconds:
        tasks = [task for task in tasks if not task.done()] + [asyncio.create_task(one(sent))]
        sent += 1
        await asyncio.sleep(max(0.0, start + sent / options.per_s + luck.uniform(-0.01, 0.01) - time.monotonic()))
    await asyncio.gather(*tasks)
    idle = await client.wait_idle(server.port)
    used = (await client.ask(server.port, client.packet("GET", "/v1/cache/stats"))).json["blocks"]["used"]
    left = {"blocks_used": used, **{n: int(await client.metric(server.port, n)) for n in ("sequences_running", "sequences_waiting", "requests_running")}}
    cancelled = int(await client.metric(server.port, "requests_cancelled_total"))
    answer = await client.ask(server.port, client.chat("The capital of France is", max_tokens=8))
    report = {"sent": sent, "seconds": options.seconds, "left_when": counts, "cancelled": cancelled, "left": left, "next_answer": answer.status, "resident_mb": server.resident() / MB}
    missed = [f"{name} is {value} at the end" for name, value in left.items() if value]
    if not idle or answer.status != 200 or not answer.whole:
        missed.append(f"the server is not well afterwards: status {answer.status}")
    if not cancelled:
        missed.append("the server saw no cancellation")
    line = (f"{sent} requests left alone in {options.seconds:g} s ({', '.join(f'{n} {kind}' for kind, n in counts.items())}), {cancelled} cancelled: {used} blocks in use, "
            f"{left['sequences_running']} sequences running, next answer {answer.status}")
    return report, line, missed


def cancels(options):
    with client.Server(options.penstock, options.model, ["--max-num-seqs", 16, *options.serve_args.split()]) as server:
        return asyncio.run(run_cancels(options, server))


# --- the command line ---

COMMANDS = {
    streams: [("streams", 1000), ("tokens", 100), ("every-ms", 100), ("most-us", 20.0), ("least-events", 0.99)],
    soak: [("requests", 10000), ("first", 1000), ("at-once", 32), ("most-growth", 0.02), ("model", "")],
    overload: [("seconds", 60.0), ("calm-seconds", 0.0), ("times", 10.0), ("clients", 16), ("at-once", 900), ("tokens", 20), ("prompt-words", 8), ("least-share", 0.9), ("model", "")],
    cancels: [("seconds", 60.0), ("per-s", 50.0), ("longest-s", 0.6), ("prompt-words", 60), ("seed", 1), ("model", None)],
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for command, settings in COMMANDS.items():
        sub = commands.add_parser(command.__name__)
        sub.set_defaults(command=command)
        sub.add_argument("--penstock", required=True)
        sub.add_argument("--serve-args", default="", help="more arguments of `penstock serve`")
        sub.add_argument("--json", action="store_true")
        for name, value in settings:
            sub.add_argument(f"--{name}", type=str if value is None else type(value), default=value, required=value is None)
    return parser.parse_args()


def main():
    options = parse()
    client.raise_file_limit()
    with contextlib.suppress(KeyboardInterrupt):
        report, line, missed = options.command(options)
        report["missed"] = missed
        print(json.dumps(report) if options.json else "\n".join([line, *(f"missed: {m}" for m in missed)]))
        return 1 if missed else 0
    return 130


if __name__ == "__main__":
    sys.exit(main())
