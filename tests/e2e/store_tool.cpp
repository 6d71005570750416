// The store's verbs for test_store.py: prints one JSON object; exit status 0 done, 1 failed, 2 bad usage.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "store/package_source.h"
#include "store/registry.h"

namespace {

using penstock::base::Json;
namespace store = penstock::store;

std::atomic<bool> stop = false;

Json to_json(const store::Located& located) {
  return {{"name", located.name},
          {"path", located.path.string()},
          {"kind", store::name(located.kind)},
          {"repo", located.repo},
          {"commit", located.commit}};
}

store::Watch watch() {
  store::Watch watch;
  watch.cancel = &stop;
  watch.on_note = [](const std::string& text) { std::fprintf(stderr, "note: %s\n", text.c_str()); };
  watch.on_progress = [](const store::Progress& progress) {
    std::fprintf(stderr, "progress: %s %llu/%llu\n", progress.what.c_str(),
                 static_cast<unsigned long long>(progress.done_bytes),
                 static_cast<unsigned long long>(progress.total_bytes));
  };
  return watch;
}

Json list(const store::Registry& registry) {
  Json all = Json::array();
  for (const auto& entry : registry.list()) {
    all.push_back({{"name", entry.name},
                   {"kind", store::name(entry.kind)},
                   {"complete", entry.complete},
                   {"size_bytes", entry.size_bytes},
                   {"problem", entry.problem}});
  }
  return all;
}

/// An alias from a file in the form of an entry of aliases.json, from its packages.
Json pull_packages(const store::RegistryOptions& options, const char* file) {
  std::ifstream in(file);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const store::Alias alias = store::read_alias(penstock::base::parse_json(text, file));
  store::HubCache cache(options.hub.cache);
  store::PackageSource source(options.index, {}, options.retry);
  const auto snapshot = source.pull(cache, alias, alias.sources.front(), watch());
  return {{"path", (snapshot.folder / alias.file).string()}, {"commit", snapshot.commit}};
}

Json run(const std::string& verb, const char* argument) {
  const auto environment = penstock::config::Environment::process();
  store::RegistryOptions options = store::registry_options(environment);
  options.retry = {.attempts = 4, .first_delay_ms = 10};
  store::Registry registry(options, environment);
  if (verb == "list") return list(registry);
  if (verb == "find") return to_json(registry.require(argument));
  if (verb == "pull") return to_json(registry.pull(argument, watch()));
  if (verb == "pull-packages") return pull_packages(options, argument);
  if (verb == "rm") return {{"freed_bytes", registry.remove(argument)}};
  if (verb == "pick") return {{"name", registry.pick_default(std::strtoull(argument, nullptr, 10), watch())}};
  throw std::invalid_argument("unknown verb " + verb);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::signal(SIGINT, [](int) { stop = true; });
  try {
    std::printf("%s\n", run(argv[1], argc > 2 ? argv[2] : "").dump().c_str());
    return 0;
  } catch (const penstock::base::Error& error) {
    const Json json{{"code", penstock::base::name(error.code())}, {"error", error.what()}};
    std::printf("%s\n", json.dump().c_str());
    return 1;
  }
}
