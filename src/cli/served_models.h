// The models of `penstock serve`: those that are named and those of --model-dir, located, with what loads
// them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "config/settings.h"
#include "pool/model_pool.h"

namespace penstock::cli {

/// The named ones first, pulled when they are not here; without a name and a --model-dir one is chosen for
/// this machine. `on_lost` is called when a device can do no more. Throws what is wrong with a named model; a
/// folder of --model-dir that holds part of a model is left out, with a warning.
std::vector<pool::ModelSource> served_models(const Program& program, const config::Settings& settings,
                                             const std::vector<std::string>& names,
                                             const std::function<void()>& on_lost);

pool::PoolOptions pool_options(const config::Settings& settings);

}  // namespace penstock::cli
