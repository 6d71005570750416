// Times prefill and decode steps of the CPU executor on a real model, without engine, sampler options or
// server: cpu_steps MODEL [--threads N] [--batch N] [--prompt N] [--tokens N] [--drafts N] [--exact]
// [--scalar] With drafts: what a step costs that checks 0 to N of them, in turn. Prints tokens a second and a
// hash of the drawn tokens, so that a faster wrong answer is noticed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "exec/cpu/cpu_executor.h"
#include "models/model_files.h"

namespace {

using namespace penstock;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  int32_t threads = 0, batch = 1, prompt = 128, tokens = 64, repeats = 3, drafts = 0;
  bool exact = false, scalar = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto number = [&] { return ++i < argc ? std::atoi(argv[i]) : 0; };
    if (arg == "--threads")
      o.threads = number();
    else if (arg == "--batch")
      o.batch = number();
    else if (arg == "--prompt")
      o.prompt = number();
    else if (arg == "--tokens")
      o.tokens = number();
    else if (arg == "--drafts")
      o.drafts = number();
    else if (arg == "--repeats")
      o.repeats = number();
    else if (arg == "--exact")
      o.exact = true;
    else if (arg == "--scalar")
      o.scalar = true;
    else
      o.model = arg;
  }
  return o;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of all threads: on a busy machine it says more than the wall clock.
double cpu_ms_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC;
}

class Runner {
 public:
  Runner(const Options& o, const models::ModelFiles& files)
      : options_(o), executor_(o.scalar ? exec::cpu::Isa::kScalar : exec::cpu::Isa::kBest), files_(files) {
    context_ = o.prompt + o.tokens + o.drafts + 64;
    limits_ = {.max_slots = o.batch,
               .max_batch_tokens = std::max(512, o.batch),
               .max_context = context_,
               .threads = o.threads,
               .exact = o.exact};
    limits_.n_blocks.assign(files.plan.kv_groups.size(), (context_ / 64 + 1) * o.batch);
    const auto start = Clock::now();
    executor_.load(files.plan, files.weights, limits_);
    std::printf("load %.3f s, %s\n", seconds_since(start), executor_.caps().detail.c_str());
    const exec::MemoryPlan memory = executor_.measure(files.plan, files.weights, limits_);
    weight_bytes_ = static_cast<double>(memory.weight_bytes);
    std::printf("weights %.1f MB, scratch %.1f MB\n", weight_bytes_ / 1e6,
                static_cast<double>(memory.scratch_bytes) / 1e6);
  }

  void run() {
    reset();
    const std::clock_t prefill_cpu = std::clock();
    const auto start = Clock::now();
    for (int32_t at = 0; at < options_.prompt; at += 512) step(at, std::min(512, options_.prompt - at), 0, 1);
    const double prefill = seconds_since(start);
    const double prefill_ms = cpu_ms_since(prefill_cpu);
    for (int32_t slot = 1; slot < options_.batch; ++slot)
      for (int32_t at = 0; at < options_.prompt; at += 512)
        step(at, std::min(512, options_.prompt - at), slot, 1);
    const std::clock_t decode_cpu = std::clock();
    const auto decode_start = Clock::now();
    uint64_t hash = 0;
    for (int32_t i = 0; i < options_.tokens; ++i) hash = step(options_.prompt + i, 1, 0, options_.batch);
    const double decode = seconds_since(decode_start);
    std::printf("processor time: prefill %.1f ms, decode %.2f ms a step   ", prefill_ms,
                cpu_ms_since(decode_cpu) / options_.tokens);
    std::printf(
        "prefill %d: %.1f tok/s   decode x%d: %.1f tok/s (%.2f ms a step, %.1f GB/s)   tokens %016llx\n",
        options_.prompt, options_.prompt / prefill, options_.batch, options_.tokens * options_.batch / decode,
        decode * 1e3 / options_.tokens, weight_bytes_ * options_.tokens / decode / 1e9,
        static_cast<unsigned long long>(hash));
  }

  /// Medians of a step that checks n drafts of each sequence, all n in turn.
  void run_drafts() {
    reset();
    for (int32_t slot = 0; slot < options_.batch; ++slot)
      for (int32_t at = 0; at < options_.prompt; at += 512)
        step(at, std::min(512, options_.prompt - at), slot, 1);
    std::vector<std::vector<double>> ms(static_cast<size_t>(options_.drafts) + 1);
    for (int32_t i = 0; i < options_.tokens; ++i) {
      for (size_t n = 0; n < ms.size(); ++n) {
        const auto start = Clock::now();
        step(options_.prompt, static_cast<int32_t>(n) + 1, 0, options_.batch, true);
        ms[n].push_back(seconds_since(start) * 1e3);
      }
    }
    for (size_t n = 0; n < ms.size(); ++n) {
      std::ranges::sort(ms[n]);
      const double median = ms[n][ms[n].size() / 2];
      std::printf("%zu drafts: %.2f ms, %.2f of a plain step\n", n, median, median / ms[0][ms[0].size() / 2]);
    }
  }

 private:
  void reset() {
    edits_.clear();
    const int32_t per_slot = context_ / 64 + 1;
    for (int32_t slot = 0; slot < options_.batch; ++slot) {
      executor_.reset_slot(slot, {}, {});
      for (size_t g = 0; g < files_.plan.kv_groups.size(); ++g)
        for (int32_t i = 0; i < per_slot; ++i)
          edits_.push_back({slot, static_cast<int32_t>(g), i, slot * per_slot + i});
    }
  }

  /// n tokens at `position` of the slots [first, first + count); draws greedily. Returns a hash of the draws.
  uint64_t step(int32_t position, int32_t n, int32_t first, int32_t count, bool all_logits = false) {
    std::vector<exec::Row> rows;
    std::vector<int32_t> tokens;
    std::vector<exec::SampleRow> samples;
    for (int32_t i = 0; i < count; ++i) {
      rows.push_back({first + i, exec::Role::kGenerated, static_cast<int32_t>(tokens.size()), n, position,
                      all_logits ? n : 1});
      for (int32_t t = 0; t < n; ++t)
        tokens.push_back(n == 1 ? exec::kOnDevice : (position + t) * 7919 % (files_.plan.vocab - 10) + 5);
    }
    for (int32_t i = 0; i < (all_logits ? n : 1) * count; ++i) samples.push_back({.logit_row = i});
    const exec::Ticket ticket = executor_.forward({rows, tokens, edits_});
    edits_.clear();
    executor_.sample(ticket, {samples, {}});
    const exec::StepOutput& out = executor_.wait(ticket);
    hash_ = base::fnv1a(out.tokens, hash_);
    executor_.release(ticket);
    return hash_;
  }

  const Options options_;
  exec::cpu::CpuExecutor executor_;
  const models::ModelFiles& files_;
  exec::Limits limits_;
  std::vector<exec::TableEdit> edits_;
  int32_t context_ = 0;
  double weight_bytes_ = 0;
  uint64_t hash_ = base::kFnvOffset;
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  const auto start = Clock::now();
  const models::ModelFiles files = models::open_model(options.model);
  std::printf("open %.3f s\n", seconds_since(start));
  Runner runner(options, files);
  for (int32_t i = 0; i < options.repeats; ++i) runner.run();
  if (options.drafts > 0) runner.run_drafts();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
