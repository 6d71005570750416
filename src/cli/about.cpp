// penstock doctor, version and completion: about the program itself.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "config/settings.h"
#include "pool/executors.h"
#include "pool/memory.h"

namespace penstock::cli {
namespace {

void print_executors() {
  const auto& choices = config::find_option("executor")->choices;
  for (const std::string& name : pool::executor_names()) {
    if (std::find(choices.begin(), choices.end(), name) == choices.end()) continue;  // for tests only
    std::string detail;
    try {
      detail = pool::make_executor(name)->caps().detail;
    } catch (const base::Error& error) {  // built, but its device is not on this machine
      detail = "not here: " + std::string(error.text());
    }
    std::cout << fmt::format("executor     {:10} {}\n", name, detail);
  }
}

int doctor(const Program& program, const config::Settings& settings) {
  const pool::MachineMemory memory = pool::machine_memory();
  const config::HubEnvironment hub = config::read_hub(program.environment);
  std::cout << fmt::format("penstock     {}\n", PENSTOCK_VERSION);
  print_executors();
  std::cout << fmt::format("kv format    {} (cpu has {}; other executors auto)\n", settings.kv_format,
                           fmt::join(config::find_option("kv_format")->choices, ", "));
  std::cout << fmt::format("cores        {}, {} usable\n", std::thread::hardware_concurrency(),
                           pool::usable_cores());
  std::cout << fmt::format("memory       {:.1f} GB, {:.1f} GB available\n",
                           static_cast<double>(memory.total_bytes) / 1e9,
                           static_cast<double>(memory.available_bytes) / 1e9);
  std::cout << fmt::format("model cache  {}\n", hub.cache.string());
  std::cout << fmt::format("hub          {}{}{}\n", hub.endpoint, hub.offline ? ", offline" : "",
                           hub.token.empty() ? "" : ", token from " + hub.token_origin);
  const auto models = make_registry(program).list();
  std::cout << fmt::format("models       {}\n", models.size());
  int problems = 0;
  for (const auto& model : models) {
    if (model.complete) continue;
    std::cout << fmt::format("problem      {} is incomplete ({}): `penstock pull {}`\n", model.name,
                             model.problem, model.name);
    ++problems;
  }
  std::cout << (problems == 0 ? "no problems found\n" : "");
  return problems == 0 ? kDone : kFailed;
}

std::string words(CLI::App& app) {
  std::string list;
  for (const CLI::App* command : app.get_subcommands({}))
    list += (list.empty() ? "" : " ") + command->get_name();
  return list;
}

std::string flags(const CLI::App& command) {
  std::string list;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) list += (list.empty() ? "--" : " --") + name;
  }
  return list;
}

std::string bash_completion(CLI::App& app) {
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), flags(*command));
  }
  return fmt::format(R"bash(_penstock() {{
  local words="" current="${{COMP_WORDS[COMP_CWORD]}}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{}" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
  if [[ "$current" == -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$current"))
  else COMPREPLY=($(compgen -f -W "$(penstock list 2>/dev/null | cut -d' ' -f1)" -- "$current")); fi
}}
complete -F _penstock penstock
)bash",
                     words(app), cases);
}

std::string fish_completion(CLI::App& app) {
  std::string out = fmt::format("complete -c penstock -f -n __fish_use_subcommand -a '{}'\n", words(app));
  for (const CLI::App* command : app.get_subcommands({})) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        out += fmt::format("complete -c penstock -n '__fish_seen_subcommand_from {}' -l {}\n",
                           command->get_name(), name);
      }
    }
  }
  return out;
}

}  // namespace

void set_examples(CLI::App& command, const std::string& examples) {
  command.footer("Examples:\n" + examples);
}

void add_doctor(CLI::App& app, Program& program) {
  CLI::App* command = app.add_subcommand("doctor", "Say what this program found on this machine");
  set_examples(*command, "  penstock doctor");
  auto settings = std::make_shared<SettingsFlags>(*command, std::vector<std::string>{"kv_format"});
  command->callback([settings, &program] { program.exit = doctor(program, settings->load(program)); });
}

void add_version(CLI::App& app, Program&) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  set_examples(*command, "  penstock version");
  command->callback([] { std::cout << "penstock " << PENSTOCK_VERSION << "\n"; });
}

void add_completion(CLI::App& app, Program&) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  set_examples(*command,
               "  source <(penstock completion bash)\n  penstock completion fish > "
               "~/.config/fish/completions/penstock.fish");
  command->callback([shell, &app] {
    if (*shell == "zsh") std::cout << "autoload -U +X bashcompinit && bashcompinit\n";
    std::cout << (*shell == "fish" ? fish_completion(app) : bash_completion(app));
  });
}

}  // namespace penstock::cli
