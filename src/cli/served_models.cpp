#include "cli/served_models.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "cli/models.h"

namespace penstock::cli {
namespace {

using base::Code;
using base::Error;
namespace fs = std::filesystem;

bool is_weights(const fs::path& file) {
  return file.extension() == ".safetensors" || file.extension() == ".gguf";
}

uint64_t weight_bytes(const fs::path& model) {
  std::error_code error;
  if (!fs::is_directory(model, error)) return fs::file_size(model);
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(model)) {
    if (is_weights(entry.path()) && entry.is_regular_file(error)) bytes += entry.file_size();
  }
  return bytes;
}

/// Folders with a config.json and .gguf files, in the order of their names.
std::vector<fs::path> models_in(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw Error(Code::kNotFound,
                "[cli.serve] expected a folder of models at " + folder.string() + "; got none");
  }
  std::vector<fs::path> models;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".gguf" || fs::exists(path / "config.json", error)) models.push_back(path);
  }
  std::sort(models.begin(), models.end());
  return models;
}

pool::ModelSource source_of(pool::LoadOptions options, const store::Located& located,
                            const ServedTogether& together) {
  options.memory = together.memory;
  options.on_lost = together.on_lost;
  options.disk = together.disk;
  pool::ModelSource source;
  source.id = options.name;
  source.names = options.names;
  source.needs_bytes = weight_bytes(located.path) + options.kv_memory_bytes;
  if (!options.draft_model.empty()) source.needs_bytes += weight_bytes(options.draft_model);
  source.load = [path = located.path, options = std::move(options)] {
    std::fprintf(stderr, "loading %s\n", path.c_str());
    std::shared_ptr<const pool::Model> model = pool::load_model(path, options);
    std::fprintf(stderr, "%s: %s, %s, executor %s (%s), context %d tokens\n", model->id.c_str(),
                 model->family.c_str(), model->format.c_str(), model->executor.c_str(),
                 model->executor_detail.c_str(), model->context_length);
    return model;
  };
  return source;
}

}  // namespace

std::vector<ServedModel> served_models(const Program& program, const config::Settings& settings,
                                       const std::vector<std::string>& names,
                                       const ServedTogether& together) {
  std::vector<store::Located> found;
  for (const std::string& name : names) found.push_back(locate_or_pull(program, name));
  if (names.empty() && settings.model_dir.empty()) found.push_back(locate_or_pull(program, ""));
  std::set<fs::path> seen;
  for (const store::Located& one : found) seen.insert(fs::weakly_canonical(one.path));
  const auto listed = settings.model_dir.empty() ? std::vector<fs::path>() : models_in(settings.model_dir);
  const store::Registry registry = make_registry(program);
  for (const fs::path& path : listed) {
    if (!seen.insert(fs::weakly_canonical(path)).second) continue;
    try {
      // Its own name is the one it is served under; a slash says that it is a path and no name of a hub's.
      if (auto located = registry.find(fs::absolute(path).string())) found.push_back(*located);
    } catch (const Error& error) {
      base::log::warn("{} is left out: {}", path.string(), error.text());
    }
  }
  if (found.empty()) {
    throw Error(Code::kNotFound, "[cli.serve] expected models in " + settings.model_dir + "; got none");
  }
  if (found.size() > 1 && !settings.served_model_name.empty()) {
    throw Error(Code::kInvalidRequest, "[cli.serve] expected one model beside --served-model-name; got " +
                                           std::to_string(found.size()));
  }
  if (found.size() > 1 && !settings.draft_model.empty()) {
    throw Error(Code::kInvalidRequest,
                "[cli.serve] expected one model beside --draft-model; got " + std::to_string(found.size()));
  }
  std::vector<ServedModel> models;
  for (const store::Located& one : found)
    models.push_back({source_of(load_options_with_draft(program, settings, one), one, together), one});
  return models;
}

pool::ModelSource added_source(const config::Settings& settings, const ServedTogether& together,
                               const store::Located& located, const std::string& name) {
  pool::LoadOptions options = load_options(settings, located);
  options.name = name;
  options.names.clear();
  return source_of(std::move(options), located, together);
}

std::shared_ptr<tier::DiskStore> open_disk_cache(const config::Settings& settings) {
  if (settings.disk_cache_dir.empty()) return nullptr;
  tier::DiskOptions options;
  options.directory = settings.disk_cache_dir;
  options.max_bytes = static_cast<uint64_t>(settings.disk_cache_bytes);
  options.min_free_bytes = static_cast<uint64_t>(settings.disk_cache_min_free_bytes);
  return std::make_shared<tier::DiskStore>(std::move(options));
}

pool::PoolOptions pool_options(const config::Settings& settings,
                               const std::shared_ptr<const pool::MemoryGuard>& memory) {
  pool::PoolOptions options;
  options.max_loaded = static_cast<int32_t>(settings.max_loaded_models);
  options.idle_ttl_ms = settings.model_idle_ttl_ms;
  options.available_bytes = [memory] { return memory->free_bytes(); };
  return options;
}

}  // namespace penstock::cli
