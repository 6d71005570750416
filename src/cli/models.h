// From the name of a model on the command line to files and to a model that serves.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "chat/request.h"
#include "cli/command.h"
#include "config/settings.h"
#include "pool/loader.h"
#include "store/registry.h"

namespace penstock::cli {

store::Registry make_registry(const Program& program);

/// Set by SIGINT once catch_interrupts() was called.
std::atomic<bool>& interrupted();

/// From now on SIGINT sets interrupted() instead of ending the program; a second one ends it with status 130.
void catch_interrupts();

/// Progress bar and notes on standard error; SIGINT cancels.
store::Watch watch_on_terminal();

/// Finds the model, pulling it first when it is not here. An empty name picks one for this machine and says
/// so.
store::Located locate_or_pull(const Program& program, const std::string& name);

/// --temperature, --top-p, --top-k, --min-p and --repetition-penalty. `temperature_default` is for the help.
void add_sampling_flags(CLI::App& command, chat::Sampling& sampling, const std::string& temperature_default);

/// Of the settings memory_guard and memory_limit; what is available now counts.
std::shared_ptr<pool::MemoryGuard> memory_guard(const config::Settings& settings);

pool::LoadOptions load_options(const config::Settings& settings, const store::Located& located);

/// The same with the draft model of the settings, found or pulled.
pool::LoadOptions load_options_with_draft(const Program& program, const config::Settings& settings,
                                          const store::Located& located);

}  // namespace penstock::cli
