#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"

namespace {

using penstock::base::Code;
using penstock::cli::Exit;

constexpr const char* kExamples = R"(Examples:
  penstock run                              chat with a model that fits this machine
  penstock run smollm2 "Why is the sky blue?"
  penstock serve smollm2                    OpenAI-compatible server on http://127.0.0.1:11434
  penstock pull mlx-community/Qwen2.5-0.5B-Instruct-4bit
  penstock generate smollm2 "Write a haiku" --json

`penstock COMMAND --help` explains a command.)";

int exit_for(const penstock::base::Error& error) {
  switch (error.code()) {
    case Code::kInvalidRequest:
      return Exit::kUsage;
    case Code::kCancelled:
      return Exit::kInterrupted;
    default:
      return Exit::kFailed;
  }
}

/// A script must not take a full disk or a closed pipe for work done.
int with_output_written(int exit) {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0) return exit;
  std::fprintf(stderr, "penstock: expected to write to standard output; got an error\n");
  return exit == Exit::kDone ? Exit::kFailed : exit;
}

int exit_for(const CLI::App& app, const CLI::ParseError& error, const char* first_argument) {
  if (app.get_subcommands().empty() && first_argument != nullptr && *first_argument != '-') {
    std::fprintf(stderr, "penstock: expected a command; got %s (penstock --help lists them)\n",
                 first_argument);
    return Exit::kUsage;
  }
  return app.exit(error) == 0 ? Exit::kDone : Exit::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace penstock;
  std::signal(SIGPIPE, SIG_IGN);
  cli::Program program;
  program.environment = config::Environment::process();
  CLI::App app{"Penstock runs MLX-format language models on this machine and serves them.", "penstock"};
  app.require_subcommand(1);
  app.footer(kExamples);
  for (const auto add :
       {cli::add_run, cli::add_serve, cli::add_generate, cli::add_pull, cli::add_list, cli::add_show,
        cli::add_rm, cli::add_convert, cli::add_embed, cli::add_bench, cli::add_logits, cli::add_perplexity,
        cli::add_plan, cli::add_doctor, cli::add_version, cli::add_completion}) {
    add(app, program);
  }
  try {
    base::configure_log("warn");
    app.parse(argc, argv);
    return with_output_written(program.exit);
  } catch (const CLI::ParseError& error) {
    return exit_for(app, error, argv[1]);
  } catch (const base::Error& error) {
    std::fprintf(stderr, "penstock: %s\n", std::string(error.text()).c_str());
    return exit_for(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "penstock: %s\n", error.what());
    return Exit::kFailed;
  }
}
