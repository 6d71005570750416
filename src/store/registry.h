// Names of models to files on this machine: local paths, aliases and hub repositories, and pull, list, show
// and rm on them. One owner thread at a time. Reads no weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "store/aliases.h"
#include "store/hub_cache.h"
#include "store/model_files.h"
#include "store/transfer.h"
#include "store/watch.h"

namespace penstock::store {

struct Located {
  std::string name;            // as it was asked for
  std::filesystem::path path;  // the MLX directory, or the .gguf file
  Kind kind = Kind::kMlxDirectory;
  std::string repo;  // "org/name" of the cache; empty for a local path
  std::string commit;
};

struct Listed {
  std::string name;  // an alias, "org/name", or "org/name:file.gguf" where a repository holds several
  Kind kind = Kind::kMlxDirectory;
  bool complete = false;
  uint64_t size_bytes = 0;
  std::filesystem::path path;
  std::string problem;  // why it is not complete
};

struct Facts {
  Located located;
  uint64_t size_bytes = 0;
  std::vector<std::pair<std::string, uint64_t>> files;  // relative name, bytes
  std::string alias_title, licence;                     // of an alias
};

/// A hub repository as people write it: "org/name", with ":quant" or ":file.gguf" or "/file.gguf", and
/// "@revision".
struct RepoName {
  std::string repo;
  std::string wanted;  // which GGUF file; empty for the repository's own choice
  std::string revision = "main";
};
std::optional<RepoName> parse_repo_name(std::string_view name);

/// The alias whose weights this file of the cache is, or the file that the alias has in this folder; or null:
/// blobs are named by their SHA-256.
const Alias* alias_of_file(const std::filesystem::path& model);

struct RegistryOptions {
  config::HubEnvironment hub;
  config::PackageIndex index;
  std::filesystem::path ca_file;  // empty: the system's certificates
  RetryPolicy retry;
};

/// What the environment says.
RegistryOptions registry_options(const config::Environment& environment);

class Registry {
 public:
  Registry(RegistryOptions options, config::Environment environment);

  /// Finds a model without any network, in this order: an existing folder or .gguf file ("~" and a slash at
  /// the end work), an alias, "org/name[:quant or file.gguf][@revision]" or "org/name/file.gguf" in the
  /// cache. Nothing if it has to be pulled first. Throws Error(kInvalidRequest) for a name that can be none
  /// of them, kNotFound for a path that is not there, kCorrupt for a folder that lacks part of its model.
  std::optional<Located> find(std::string_view name) const;

  /// find(), or Error(kNotFound) that says how to pull it.
  Located require(std::string_view name) const;

  /// Downloads what is missing; a local path is only checked. Tries an alias's sources in order.
  Located pull(std::string_view name, const Watch& watch);

  std::vector<Listed> list() const;
  Facts show(std::string_view name) const;

  /// Bytes given back. Throws Error(kInvalidRequest) for a local path, which is not the store's to remove.
  uint64_t remove(std::string_view name);

  /// The model for a machine with this memory when none is named: the strongest candidate that is already
  /// here, otherwise the strongest whose source answers within a few seconds. Throws Error(kUnavailable) if
  /// there is none.
  std::string pick_default(uint64_t memory_bytes, const Watch& watch);

 private:
  std::optional<Located> find_local(std::string_view name) const;
  std::optional<Located> find_alias_file(const Alias& alias) const;
  std::optional<Located> find_repo(const RepoName& name) const;
  Located pull_alias(const Alias& alias, const Watch& watch);
  Located pull_repo(const RepoName& name, const Watch& watch);
  void pull_source(const Alias& alias, const Source& source, const Watch& watch);
  bool answers(std::string_view name, const Watch& watch) const;
  http::ClientOptions client_options() const;

  RegistryOptions options_;
  config::Environment environment_;
  HubCache cache_;
};

}  // namespace penstock::store
