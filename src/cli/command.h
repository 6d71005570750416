// What every subcommand shares: its registration, the environment, and its exit status. A subcommand is one
// file; small ones that belong together share one.
#pragma once

#include <CLI/CLI.hpp>

#include "config/environment.h"

namespace penstock::cli {

/// Exit statuses of the program, part of the contract for scripts.
enum Exit : int { kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130 };

/// State of one run of the program. The chosen subcommand sets `exit`.
struct Program {
  config::Environment environment;
  int exit = kDone;
};

// Each adds its subcommand to the program.
void add_serve(CLI::App& app, Program& program);
void add_run(CLI::App& app, Program& program);
void add_generate(CLI::App& app, Program& program);
void add_embed(CLI::App& app, Program& program);
void add_logits(CLI::App& app, Program& program);
void add_perplexity(CLI::App& app, Program& program);
void add_bench(CLI::App& app, Program& program);
void add_pull(CLI::App& app, Program& program);
void add_list(CLI::App& app, Program& program);
void add_show(CLI::App& app, Program& program);
void add_rm(CLI::App& app, Program& program);
void add_convert(CLI::App& app, Program& program);
void add_plan(CLI::App& app, Program& program);
void add_doctor(CLI::App& app, Program& program);
void add_version(CLI::App& app, Program& program);
void add_completion(CLI::App& app, Program& program);

/// Examples under a subcommand's options.
void set_examples(CLI::App& command, const std::string& examples);

}  // namespace penstock::cli
