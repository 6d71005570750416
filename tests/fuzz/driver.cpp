// Runs LLVMFuzzerTestOneInput on changed inputs: `--seconds N` or `--runs N`, `--seed N`, or files to run
// again. What reaches new code joins the inputs that are changed further, where the code was built with
// -fsanitize-coverage=trace-pc (the asan preset does so for what reads bytes from outside). The input of a
// fault is left in ./finding-TARGET.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "fuzz/mutate.h"
#include "fuzz/target.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#define PENSTOCK_SANITIZED 1
#endif
#ifdef __SANITIZE_ADDRESS__
// Of <sanitizer/allocator_interface.h>, which gcc does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t),
                                                         void (*)(const volatile void*));
#endif

namespace penstock::fuzz {
namespace {

constexpr size_t kMostBytes = 16 << 10;
constexpr int kMostSeconds = 20;                 // of processor time for one input
constexpr size_t kMostAllocation = 256 << 20;    // bytes asked for at once
constexpr rlim_t kMostMemory = rlim_t{4} << 30;  // of a build without sanitizers, all together
constexpr size_t kPlaces = 1 << 16;

std::array<uint8_t, kPlaces> hits;   // of one run, by a hash of the place in the code
std::array<uint8_t, kPlaces> known;  // a bit for each power of two of hits
bool is_watched = true;              // the code says where it goes
const std::string* current = nullptr;
const char* program = "";
std::atomic<bool> kept = false;

/// Only what a signal handler may do.
void keep_input() {
  if (current == nullptr || kept.exchange(true)) return;
  std::array<char, 256> path;
  std::snprintf(path.data(), path.size(), "finding-%s", program);
  const int file = ::open(path.data(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  const bool written = file >= 0 && ::write(file, current->data(), current->size()) >= 0;
  std::fprintf(stderr, "fuzz: %s %s\n", written ? "the input is in" : "cannot write", path.data());
}

void on_signal(int number) {
  std::fprintf(stderr, "fuzz: %s\n",
               number == SIGPROF ? "one input takes too long" : "a signal ended the run");
  keep_input();
  ::_exit(1);
}

void watch() {
  std::signal(SIGABRT, on_signal);
  std::signal(SIGPROF, on_signal);
#ifdef PENSTOCK_SANITIZED
  __sanitizer_set_death_callback(keep_input);
#else
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, on_signal);
  const rlimit memory{kMostMemory, kMostMemory};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
#ifdef __SANITIZE_ADDRESS__
  const auto on_allocation = [](const volatile void*, size_t bytes) {
    if (bytes > kMostAllocation && current != nullptr)
      fail("an allocation of " + std::to_string(bytes) + " bytes");
  };
  __sanitizer_install_malloc_and_free_hooks(on_allocation, [](const volatile void*) {});
#endif
}

/// Of eight places; true when one was never hit so often.
bool note_hits(size_t at) {
  bool is_new = false;
  for (size_t i = at; i < at + sizeof(uint64_t); ++i) {
    if (hits[i] == 0) continue;
    const auto bit = static_cast<uint8_t>(1 << (31 - __builtin_clz(hits[i])));
    is_new = is_new || (known[i] & bit) == 0;
    known[i] |= bit;
  }
  return is_new;
}

/// True when it went where none went before.
bool run(const std::string& input) {
  if (is_watched) hits.fill(0);
  const itimerval limit{{0, 0}, {kMostSeconds, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
  current = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  current = nullptr;
  bool is_new = false;
  for (size_t at = 0; is_watched && at < kPlaces; at += sizeof(uint64_t)) {
    uint64_t eight = 0;
    std::memcpy(&eight, &hits[at], sizeof eight);
    if (eight != 0) is_new = note_hits(at) || is_new;
  }
  return is_new;
}

struct Options {
  double seconds = 1e9;
  uint64_t runs = UINT64_MAX, seed = 1;
  std::vector<std::string> files;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool has_value = i + 1 < argc;
    if (name == "--seconds" && has_value) {
      options.seconds = std::atof(argv[++i]);
    } else if (name == "--runs" && has_value) {
      options.runs = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--seed" && has_value) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      options.files.push_back(name);
    }
  }
  return options;
}

int run_files(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail("cannot read " + path);
    run(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  std::printf("fuzz: %zu files, no fault\n", paths.size());
  return 0;
}

int run_random(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::vector<std::string> corpus = seeds();
  Mutator mutator(options.seed, words(), kMostBytes);
  for (const std::string& seed : corpus) run(seed);
  is_watched = std::any_of(known.begin(), known.end(), [](uint8_t bits) { return bits != 0; });
  const size_t n_seeds = corpus.size();
  uint64_t runs = 0;
  for (; runs < options.runs && passed() < options.seconds; ++runs) {
    // Half of the time one of the newest, which least was tried with.
    const size_t newest = std::min<size_t>(corpus.size(), 32);
    const size_t pick =
        mutator.below(2) == 0 ? mutator.below(corpus.size()) : corpus.size() - 1 - mutator.below(newest);
    std::string input = mutator.mutate(corpus[pick], corpus[mutator.below(corpus.size())]);
    if (run(input)) corpus.push_back(std::move(input));
  }
  const auto places = kPlaces - static_cast<size_t>(std::count(known.begin(), known.end(), 0));
  std::printf(
      "fuzz: %s, seed %llu: %llu runs in %.1f s from %zu seeds, %zu inputs that reach new code, %zu places; "
      "no fault\n",
      program, static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(runs), passed(),
      n_seeds, corpus.size() - n_seeds, places);
  return 0;
}

}  // namespace

void fail(const std::string& why) {
  std::fprintf(stderr, "fuzz: %s\n", why.c_str());
  keep_input();
  ::_exit(1);
}

/// Of any thread: a count that is lost to another one does no harm.
extern "C" __attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  ++hits[(place ^ (place >> 16)) % kPlaces];
}

}  // namespace penstock::fuzz

int main(int argc, char** argv) {
  using namespace penstock::fuzz;
  const char* slash = std::strrchr(argv[0], '/');
  program = slash == nullptr ? argv[0] : slash + 1;
  const Options options = parse(argc, argv);
  watch();
  return options.files.empty() ? run_random(options) : run_files(options.files);
}
