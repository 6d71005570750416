// penstock plan: the operations that a model's config.json lowers to.
#include <iostream>
#include <memory>

#include "cli/models.h"
#include "models/model_files.h"

namespace penstock::cli {

void add_plan(CLI::App& app, Program& program) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("plan", "Print the operations that a model runs as");
  command->add_option("model", *name, "Alias, org/name, folder or .gguf file")->required();
  set_examples(*command, "  penstock plan smollm2");
  command->callback([name, &program] {
    const store::Located located = locate_or_pull(program, *name);
    const models::ModelFiles files = models::open_model(located.path);
    std::cout << "weights " << files.format << "\n" << models::describe(files.plan);
    for (const auto& key : files.spec.unknown_keys) std::cout << "not read from config.json: " << key << "\n";
  });
}

}  // namespace penstock::cli
