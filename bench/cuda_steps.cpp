// Times decode and prefill of the CUDA executor on a model of random weights, through the engine:
// cuda_steps [--shape 8b|1.5b] [--decode BATCH:CONTEXT]... [--prefill TOKENS]... [--gen N] [--chunk N]
// [--repeat N] [--sampled] [--cut]. --sampled draws at temperature 0.8, --cut with top-k, top-p and a
// repetition penalty, too. Decode is timed from the first moment at which every sequence decodes to the first
// at which one has ended, so that the prompts of the others are not in it. Prints tokens a second and a hash
// of the drawn tokens, so that a faster wrong answer is noticed.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "bench/random_model.h"
#include "engine/engine.h"
#include "exec/cuda/cuda_executor.h"

namespace {

using namespace penstock;
using Clock = std::chrono::steady_clock;

struct Options {
  bench::ModelShape shape = bench::kEightB;
  std::vector<std::pair<int32_t, int32_t>> decode;
  std::vector<int32_t> prefill;
  int32_t gen = 128, chunk = 4096, repeat = 3;
  bool sampled = false, cut = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto next = [&] { return ++i < argc ? std::string(argv[i]) : std::string(); };
    if (arg == "--shape") {
      if (next() == "1.5b") o.shape = bench::kOneAndHalfB;
    } else if (arg == "--decode") {
      const std::string value = next();
      o.decode.emplace_back(std::atoi(value.c_str()), std::atoi(value.c_str() + value.find(':') + 1));
    } else if (arg == "--prefill") {
      o.prefill.push_back(std::atoi(next().c_str()));
    } else if (arg == "--gen") {
      o.gen = std::atoi(next().c_str());
    } else if (arg == "--chunk") {
      o.chunk = std::atoi(next().c_str());
    } else if (arg == "--repeat") {
      o.repeat = std::atoi(next().c_str());
    } else if (arg == "--sampled" || arg == "--cut") {
      o.sampled = true;
      o.cut = o.cut || arg == "--cut";
    }
  }
  return o;
}

class Collector : public engine::Sink {
 public:
  void on_tokens(std::span<const engine::Token> tokens) override {
    for (const engine::Token& token : tokens) hash_ = base::fnv1a(std::span(&token.id, 1), hash_);
    times_.push_back(Clock::now());
  }
  void on_finish(const engine::Receipt& receipt) override {
    const std::lock_guard lock(mutex_);
    receipt_ = receipt;
    done_ = true;
    ready_.notify_one();
  }
  engine::Receipt wait() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return done_; });
    if (receipt_.finish == engine::Finish::kFailed) std::printf("failed: %s\n", receipt_.error.c_str());
    return receipt_;
  }
  uint64_t hash() const { return hash_; }
  const std::vector<Clock::time_point>& times() const { return times_; }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  engine::Receipt receipt_;
  bool done_ = false;
  uint64_t hash_ = base::kFnvOffset;
  std::vector<Clock::time_point> times_;  // of each token
};

struct Run {
  double prefill_ms = 0;  // of the slowest
  double step_ms = 0;     // while all of them decode
  uint64_t hash = 0;
};

Run run_jobs(engine::Engine& engine, const Options& o, int32_t batch, int32_t prompt, int32_t gen) {
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int32_t i = 0; i < batch; ++i) {
    engine::Job job;
    for (int32_t t = 0; t < prompt; ++t)
      job.prompt.push_back(
          static_cast<int32_t>(base::splitmix64(static_cast<uint64_t>(i) << 32 | static_cast<uint64_t>(t)) %
                               static_cast<uint64_t>(o.shape.vocab)));
    job.max_tokens = gen;
    if (o.sampled) {
      job.params.temperature = 0.8f;
      job.params.seed = static_cast<uint64_t>(i);
      if (o.cut) {
        job.params.top_k = 20;
        job.params.top_p = 0.8f;
        job.params.repetition_penalty = 1.05f;
      }
    }
    sinks.push_back(std::make_shared<Collector>());
    engine.submit(std::move(job), sinks.back());
  }
  Run run;
  for (const auto& sink : sinks) {
    const engine::Receipt receipt = sink->wait();
    run.prefill_ms = std::max(run.prefill_ms, receipt.prefill_ms);
    run.hash = run.hash * 31 + sink->hash();
  }
  if (gen > 1) {
    Clock::time_point from = sinks[0]->times().front(), to = sinks[0]->times().back();
    for (const auto& sink : sinks) {
      from = std::max(from, sink->times().front());
      to = std::min(to, sink->times().back());
    }
    const auto inside = [&](Clock::time_point t) { return t > from && t <= to; };
    const auto& times = sinks.back()->times();
    const auto steps = std::count_if(times.begin(), times.end(), inside);
    run.step_ms = std::chrono::duration<double, std::milli>(to - from).count() / static_cast<double>(steps);
  }
  return run;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(engine::Engine& engine, const Options& o) {
  run_jobs(engine, o, 1, 64, 8);
  for (const auto& [batch, context] : o.decode) {
    std::vector<double> rates, steps;
    uint64_t hash = 0;
    for (int32_t r = 0; r < o.repeat; ++r) {
      const Run run = run_jobs(engine, o, batch, context, o.gen);
      rates.push_back(batch * 1e3 / run.step_ms);
      steps.push_back(run.step_ms);
      hash = run.hash;
    }
    std::printf(
        "decode batch %2d context %6d: %8.1f tok/s  %.3f ms a step  (min %.1f max %.1f)  tokens %016llx\n",
        batch, context, median(rates), median(steps), *std::min_element(rates.begin(), rates.end()),
        *std::max_element(rates.begin(), rates.end()), static_cast<unsigned long long>(hash));
    std::fflush(stdout);
  }
  for (const int32_t tokens : o.prefill) {
    std::vector<double> rates;
    for (int32_t r = 0; r < o.repeat; ++r)
      rates.push_back(tokens * 1e3 / run_jobs(engine, o, 1, tokens, 1).prefill_ms);
    std::printf("prefill %6d tokens: %9.1f tok/s (min %.1f max %.1f)\n", tokens, median(rates),
                *std::min_element(rates.begin(), rates.end()), *std::max_element(rates.begin(), rates.end()));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const Options o = parse(argc, argv);
  const auto start = Clock::now();
  const bench::RandomModel model(o.shape);
  int32_t context = 1024, seqs = 1;
  int64_t tokens = 0;
  for (const auto& [batch, depth] : o.decode) {
    context = std::max(context, depth + o.gen + 64);
    seqs = std::max(seqs, batch);
    tokens = std::max(tokens, int64_t{batch} * (depth + o.gen + 128));
  }
  for (const int32_t prefill : o.prefill) {
    context = std::max(context, prefill + 64);
    tokens = std::max(tokens, int64_t{prefill} + 128);
  }
  auto executor = std::make_unique<exec::cuda::CudaExecutor>();
  exec::Limits limits;
  limits.max_slots = seqs;
  limits.max_batch_tokens = o.chunk + seqs;
  limits.max_context = context;
  limits.n_blocks = {static_cast<int32_t>(tokens / 64 + 2 * seqs + 16)};
  executor->load(model.plan(), model.weights(), limits);
  std::printf("%s, loaded in %.1f s\n", executor->caps().detail.c_str(),
              std::chrono::duration<double>(Clock::now() - start).count());
  engine::EngineOptions options;
  options.max_seqs = seqs;
  options.max_batch_tokens = limits.max_batch_tokens;
  options.prefill_chunk_tokens = o.chunk;
  options.context_length = context;
  options.n_blocks = limits.n_blocks;
  engine::Engine engine(std::move(executor), model.plan(), options);
  measure(engine, o);
  engine.stop();
  return 0;
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
