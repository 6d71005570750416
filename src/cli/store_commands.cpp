// penstock pull, list, show and rm: models on this machine's disk.
#include <ctime>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "base/json.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "models/model_files.h"

namespace penstock::cli {
namespace {

using base::Json;

std::string megabytes(uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

void print_list(const std::vector<store::Listed>& models, bool json) {
  if (json) {
    Json list = Json::array();
    for (const auto& model : models) {
      list.push_back({{"name", model.name},
                      {"path", model.path.string()},
                      {"size_bytes", model.size_bytes},
                      {"complete", model.complete},
                      {"problem", model.problem}});
    }
    std::cout << list.dump() << std::endl;
    return;
  }
  if (models.empty()) std::cout << "No models yet. `penstock pull smollm2` gets a small one (98 MB).\n";
  for (const auto& model : models) {
    std::cout << fmt::format("{:50} {:>12}  {}\n", model.name, megabytes(model.size_bytes),
                             model.complete ? "" : "incomplete: " + model.problem);
  }
}

/// What requests take that do not say, and where each value comes from.
Json sampling_json(const store::Located& located, const config::Settings& settings) {
  return pool::explain(
      pool::defaults_sources(load_options(settings, located), pool::generation_config_of(located.path)));
}

Json facts_json(const store::Facts& facts, const models::ModelFiles& files) {
  Json list = Json::array();
  for (const auto& [file, bytes] : facts.files) list.push_back({{"name", file}, {"size_bytes", bytes}});
  const models::Plan& plan = files.plan;
  int64_t parameters = 0;
  for (const auto& weight : plan.weights) parameters += weight.rows * weight.cols;
  return {{"name", facts.located.name},
          {"path", facts.located.path.string()},
          {"size_bytes", facts.size_bytes},
          {"family", plan.family},
          {"format", files.format},
          {"parameters", parameters},
          {"context_length", plan.max_position},
          {"vocab_size", plan.vocab},
          {"layers", files.spec.layers.size()},
          {"licence", facts.licence},
          {"unknown_config_keys", files.spec.unknown_keys},
          {"files", list}};
}

void print_facts(const Json& facts) {
  for (const auto& [key, value] : facts.items()) {
    if (key == "files") {
      for (const Json& file : value) {
        std::cout << fmt::format("file            {} ({})\n", file["name"].get<std::string>(),
                                 megabytes(file["size_bytes"].get<uint64_t>()));
      }
    } else if (key == "sampling") {
      for (const auto& [name, said] : value.items()) {
        std::cout << fmt::format("default         {} {} ({})\n", name, said["value"].dump(),
                                 said["from"].get<std::string>());
      }
    } else if (!(value.is_string() && value.get<std::string>().empty()) &&
               !(value.is_array() && value.empty())) {
      std::cout << fmt::format("{:15} {}\n", key,
                               value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

}  // namespace

void add_pull(CLI::App& app, Program& program) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("pull", "Download a model; an interrupted download goes on where it stopped");
  command->add_option("model", *name, "Alias or org/name[:quant or file.gguf][@revision]")->required();
  set_examples(*command,
               "  penstock pull smollm2\n"
               "  penstock pull mlx-community/Qwen2.5-0.5B-Instruct-4bit\n"
               "  HF_ENDPOINT=https://mirror.example penstock pull org/name@v1.0");
  command->callback([name, &program] {
    const store::Located located = make_registry(program).pull(*name, watch_on_terminal());
    std::cout << located.path.string() << std::endl;
  });
}

void add_list(CLI::App& app, Program& program) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("list", "List the models on this machine");
  command->add_flag("--json", *json, "Print JSON");
  set_examples(*command, "  penstock list");
  command->callback([json, &program] { print_list(make_registry(program).list(), *json); });
}

void add_show(CLI::App& app, Program& program) {
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("show", "Say what a model is");
  command->add_option("model", *name, "Alias, org/name, folder or .gguf file")->required();
  command->add_flag("--json", *json, "Print JSON");
  auto settings = std::make_shared<SettingsFlags>(*command, std::vector<std::string>{});
  set_examples(*command, "  penstock show smollm2");
  command->callback([name, json, settings, &program] {
    const config::Settings loaded = settings->load(program);
    const store::Facts facts = make_registry(program).show(*name);
    Json all = facts_json(facts, models::open_model(facts.located.path));
    all["sampling"] = sampling_json(facts.located, loaded);
    if (*json) {
      std::cout << all.dump() << std::endl;
    } else {
      print_facts(all);
    }
  });
}

void add_rm(CLI::App& app, Program& program) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("rm", "Remove a model from this machine");
  command->add_option("model", *name, "Alias or org/name")->required();
  set_examples(*command, "  penstock rm smollm2");
  command->callback([name, &program] {
    const uint64_t bytes = make_registry(program).remove(*name);
    std::cout << "removed " << *name << ", " << megabytes(bytes) << "\n";
  });
}

}  // namespace penstock::cli
