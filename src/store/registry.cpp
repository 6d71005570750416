#include "store/registry.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "store/package_source.h"

namespace penstock::store {
namespace {

namespace fs = std::filesystem;

bool is_path(std::string_view name) {
  return name.starts_with('/') || name.starts_with("./") || name.starts_with("../") ||
         name.starts_with('~') || name == "." || name == ".." || name.ends_with('/');
}

/// Any file that shows a folder to be meant as a model, so that a stray folder named like an alias does not
/// win.
bool looks_like_model(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto extension = entry.path().extension();
    if (entry.path().filename() == "config.json" || extension == ".safetensors" || extension == ".gguf")
      return true;
  }
  return false;
}

std::string all_aliases() {
  std::string text;
  for (const auto& alias : aliases()) text += (text.empty() ? "" : ", ") + alias.name;
  return text;
}

void list_snapshot(const CachedRepo& repo, const Snapshot& snapshot, std::vector<Listed>& result) {
  Inspection inspection = inspect_folder(snapshot.folder);
  if (inspection.complete && inspection.kind == Kind::kGgufFile) {
    for (const auto& file : inspection.gguf_files) {
      const Alias* alias = alias_of_file(snapshot.folder / file);
      const bool only = inspection.gguf_files.size() == 1;
      result.push_back({alias != nullptr ? alias->name
                        : only           ? repo.repo
                                         : repo.repo + ":" + file,
                        Kind::kGgufFile, true, fs::file_size(snapshot.folder / file), snapshot.folder / file,
                        ""});
    }
    return;
  }
  const Alias* alias = inspection.complete ? alias_of_file(snapshot.folder) : nullptr;
  result.push_back({alias != nullptr ? alias->name : repo.repo, inspection.kind, inspection.complete,
                    repo.size_bytes, snapshot.folder, inspection.problem});
}

}  // namespace

const Alias* alias_of_file(const fs::path& model) {
  std::error_code error;
  const bool is_folder = fs::is_directory(model, error);
  const auto all = aliases();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Alias& alias) {
    if (is_folder && alias.beside.empty()) return false;
    return fs::canonical(is_folder ? model / alias.file : model, error).filename() == alias.sha256;
  });
  return found == all.end() ? nullptr : &*found;
}

std::optional<RepoName> parse_repo_name(std::string_view name) {
  RepoName result;
  if (const auto at = name.rfind('@'); at != std::string_view::npos) {
    result.revision = name.substr(at + 1);
    name = name.substr(0, at);
    if (!is_safe_file(result.revision)) return std::nullopt;
  }
  if (const auto colon = name.find(':'); colon != std::string_view::npos) {
    result.wanted = name.substr(colon + 1);
    name = name.substr(0, colon);
    if (!is_safe_file(result.wanted)) return std::nullopt;
  }
  const auto slash = name.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  if (const auto second = name.find('/', slash + 1); second != std::string_view::npos) {
    if (!result.wanted.empty() || !name.ends_with(".gguf") || !is_safe_file(name)) return std::nullopt;
    result.wanted = name.substr(second + 1);
    name = name.substr(0, second);
  }
  if (!is_repo_id(name)) return std::nullopt;
  result.repo = name;
  return result;
}

RegistryOptions registry_options(const config::Environment& environment) {
  const auto ca_file = config::read_ca_bundle(environment);
  return {config::read_hub(environment), config::read_package_index(environment), ca_file.value_or(""), {}};
}

Registry::Registry(RegistryOptions options, config::Environment environment)
    : options_(std::move(options)), environment_(std::move(environment)), cache_(options_.hub.cache) {}

std::optional<Located> Registry::find_local(std::string_view name) const {
  fs::path path = environment_.expand_user(name).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    if (path.extension() == ".gguf") return Located{std::string(name), path, Kind::kGgufFile, "", ""};
    if (!is_path(name)) return std::nullopt;
    throw base::Error(base::Code::kInvalidRequest,
                      fmt::format("[store.find] expected a folder or a .gguf file; got {}", path.string()));
  }
  if (!fs::is_directory(path, error)) {
    if (!is_path(name) && !name.ends_with(".gguf")) return std::nullopt;
    if (!is_path(name) && parse_repo_name(name)) return std::nullopt;
    throw base::Error(base::Code::kNotFound,
                      fmt::format("[store.find] expected a model at {}; nothing is there", name));
  }
  if (!is_path(name) && !looks_like_model(path)) return std::nullopt;
  const Inspection inspection = inspect_folder(path);
  if (!inspection.complete) {
    throw base::Error(base::Code::kCorrupt, fmt::format("[store.find] expected a whole model in {}; {}",
                                                        path.string(), inspection.problem));
  }
  if (inspection.kind == Kind::kMlxDirectory)
    return Located{std::string(name), path, Kind::kMlxDirectory, "", ""};
  return Located{std::string(name), path / pick_gguf(inspection.gguf_files, "", path.string()),
                 Kind::kGgufFile, "", ""};
}

std::optional<Located> Registry::find_alias_file(const Alias& alias) const {
  const auto whole = [&](const std::string& repo, const std::string& file) -> std::optional<Located> {
    const auto snapshot = cache_.find(repo);
    if (!snapshot || alias_of_file(snapshot->folder / file) != &alias) return std::nullopt;
    const bool is_whole = std::all_of(alias.beside.begin(), alias.beside.end(), [&](const std::string& name) {
      return fs::exists(snapshot->folder / name);
    });
    if (!is_whole) return std::nullopt;
    if (!alias.beside.empty())
      return Located{alias.name, snapshot->folder, Kind::kMlxDirectory, repo, snapshot->commit};
    return Located{alias.name, snapshot->folder / file, Kind::kGgufFile, repo, snapshot->commit};
  };
  if (auto found = whole(alias_repo(alias), alias.file)) return found;
  for (const auto& source : alias.sources) {
    if (source.repo.empty()) continue;
    if (auto found = whole(source.repo, source.file)) return found;
  }
  return std::nullopt;
}

std::optional<Located> Registry::find_repo(const RepoName& name) const {
  const auto snapshot = cache_.find(name.repo, name.revision);
  if (!snapshot) return std::nullopt;
  const Inspection inspection = inspect_folder(snapshot->folder);
  const std::string shown = name.repo + (name.wanted.empty() ? "" : ":" + name.wanted);
  if (name.wanted.empty() && inspection.complete && inspection.kind == Kind::kMlxDirectory) {
    return Located{shown, snapshot->folder, Kind::kMlxDirectory, name.repo, snapshot->commit};
  }
  if (inspection.gguf_files.empty() || (name.wanted.empty() && inspection.kind != Kind::kGgufFile))
    return std::nullopt;
  try {
    const std::string file = pick_gguf(inspection.gguf_files, name.wanted, name.repo);
    return Located{shown, snapshot->folder / file, Kind::kGgufFile, name.repo, snapshot->commit};
  } catch (const base::Error& error) {
    // Another file of the repository is here; the wanted one has to be pulled.
    if (error.code() == base::Code::kNotFound) return std::nullopt;
    throw;
  }
}

std::optional<Located> Registry::find(std::string_view name) const {
  if (auto local = find_local(name)) return local;
  if (const Alias* alias = find_alias(name)) return find_alias_file(*alias);
  if (const auto repo = parse_repo_name(name)) return find_repo(*repo);
  std::error_code error;
  const char* note = fs::is_directory(name, error)              ? ", a folder without a config.json"
                     : name.find(' ') != std::string_view::npos ? ": the model comes before the prompt"
                                                                : "";
  throw base::Error(
      base::Code::kInvalidRequest,
      fmt::format("[store.find] expected a folder, a .gguf file, a repository as in org/name, or one of {}; "
                  "got '{}'{}",
                  all_aliases(), name, note));
}

Located Registry::require(std::string_view name) const {
  if (auto found = find(name)) return *found;
  throw base::Error(
      base::Code::kNotFound,
      fmt::format("[store.find] expected {} to be on this machine; get it with: penstock pull {}", name,
                  name));
}

std::vector<Listed> Registry::list() const {
  std::vector<Listed> result;
  for (const auto& repo : cache_.list()) {
    const auto main = cache_.find(repo.repo);
    if (main) {
      list_snapshot(repo, *main, result);
    } else if (!repo.snapshots.empty()) {
      list_snapshot(repo, repo.snapshots.front(), result);
      if (result.back().problem.empty()) result.back().problem = "refs/main is missing";
      result.back().complete = false;
    } else {
      result.push_back({repo.repo, Kind::kMlxDirectory, false, repo.size_bytes, repo.folder,
                        "the download is not finished"});
    }
  }
  return result;
}

Facts Registry::show(std::string_view name) const {
  Facts facts{require(name), 0, {}, "", ""};
  const Located& located = facts.located;
  if (located.kind == Kind::kGgufFile) {
    facts.files.emplace_back(located.path.filename().string(), fs::file_size(located.path));
  } else {
    for (const auto& entry : fs::recursive_directory_iterator(located.path)) {
      if (!fs::is_regular_file(entry.path())) continue;
      facts.files.emplace_back(entry.path().lexically_relative(located.path).generic_string(),
                               fs::file_size(entry.path()));
    }
    std::sort(facts.files.begin(), facts.files.end());
  }
  for (const auto& [file, bytes] : facts.files) facts.size_bytes += bytes;
  if (const Alias* alias = alias_of_file(located.path)) {
    facts.alias_title = alias->title;
    facts.licence = alias->licence;
  }
  return facts;
}

uint64_t Registry::remove(std::string_view name) {
  if (const Alias* alias = find_alias(name)) {
    const auto found = find_alias_file(*alias);
    if (!found && !fs::exists(cache_.repo_folder(alias_repo(*alias)))) {
      throw base::Error(base::Code::kNotFound,
                        fmt::format("[store.rm] expected {} to be on this machine; it is not", name));
    }
    if (!found || found->repo == alias_repo(*alias)) return cache_.remove(alias_repo(*alias));
    if (!alias->beside.empty()) return cache_.remove(found->repo);
    return cache_.remove_file({found->repo, found->commit, found->path.parent_path()},
                              found->path.filename());
  }
  const auto repo = parse_repo_name(name);
  if (!repo) {
    throw base::Error(
        base::Code::kInvalidRequest,
        fmt::format("[store.rm] expected an alias or a repository of `penstock list`; got '{}'", name));
  }
  if (repo->wanted.empty()) return cache_.remove(repo->repo);
  const auto found = find_repo(*repo);
  if (!found) {
    throw base::Error(base::Code::kNotFound,
                      fmt::format("[store.rm] expected {} to be on this machine; it is not", name));
  }
  const auto snapshot = cache_.find(repo->repo, repo->revision);
  return cache_.remove_file(*snapshot, found->path.lexically_relative(snapshot->folder));
}

}  // namespace penstock::store
