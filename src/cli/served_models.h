// The models of `penstock serve`: those that are named and those of --model-dir, located, with what loads
// them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "config/settings.h"
#include "pool/memory_guard.h"
#include "pool/model_pool.h"
#include "store/registry.h"
#include "tier/disk_store.h"

namespace penstock::cli {

/// What all served models have in common.
struct ServedTogether {
  std::function<void()> on_lost;              // called when a device can do no more
  std::shared_ptr<pool::MemoryGuard> memory;  // what may be planned for
  std::shared_ptr<tier::DiskStore> disk;      // null: none
};

/// A model that the server is started with.
struct ServedModel {
  pool::ModelSource source;
  store::Located located;
};

/// The named ones first, pulled when they are not here; without a name and a --model-dir one is chosen for
/// this machine. Throws what is wrong with a named model; a folder of --model-dir that holds part of a model
/// is left out, with a warning.
std::vector<ServedModel> served_models(const Program& program, const config::Settings& settings,
                                       const std::vector<std::string>& names, const ServedTogether& together);

/// One that a request made or downloaded, under the name that it gave it.
pool::ModelSource added_source(const config::Settings& settings, const ServedTogether& together,
                               const store::Located& located, const std::string& name);

/// Null where no folder is set. Throws Error(kIo), kUnavailable, as tier::DiskStore does.
std::shared_ptr<tier::DiskStore> open_disk_cache(const config::Settings& settings);

pool::PoolOptions pool_options(const config::Settings& settings,
                               const std::shared_ptr<const pool::MemoryGuard>& memory);

}  // namespace penstock::cli
